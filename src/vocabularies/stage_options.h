// SPDX-License-Identifier: Apache-2.0
// Stages of a tokenizer as it keeps them: the JSON of its tokenizer.json.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "vocabularies/post_processor.h"

namespace megalith::vocabularies {

/// `absent` also for what is of another type: a component has members that nobody asks for.
template <typename T>
T option(const Json& component, const char* key, T absent) {
  const auto found = component.find(key);
  if (found == component.end()) return absent;
  const bool is_wanted = std::is_same_v<T, bool>          ? found->is_boolean()
                         : std::is_same_v<T, std::string> ? found->is_string()
                                                          : found->is_structured();
  return is_wanted ? found->template get<T>() : absent;
}

inline std::string option(const Json& component, const char* key, const char* absent) {
  return option(component, key, std::string(absent));
}

/// The components of a stage in order; a Sequence has them in `list`, and null is none.
inline std::vector<Json> components(const Json& stage, const char* list) {
  if (stage.is_null()) return {};
  if (option(stage, "type", "") != "Sequence") return {stage};
  std::vector<Json> found;
  for (const Json& part : option(stage, list, Json::array()))
    for (Json& component : components(part, list)) found.push_back(std::move(component));
  return found;
}

}  // namespace megalith::vocabularies
