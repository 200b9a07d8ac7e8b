// SPDX-License-Identifier: Apache-2.0
// A JSON schema as it is compiled: references followed, what several schemas ask of one value
// joined into one. No schema is trusted: all that copies or follows spends of the budget.
#pragma once

#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "grammar_automata/code_automaton.h"

namespace megalith::grammars {

using Json = nlohmann::ordered_json;

/// A schema and where it stands, for messages. The document keeps it.
struct Place {
  const Json* schema = nullptr;
  std::string path;
};

class SchemaDocument {
 public:
  static constexpr size_t kMostLevels = 64;  // of the text, and of references in a row

  /// UserError if the text is no JSON. `where` names it in messages.
  SchemaDocument(std::string_view text, std::string_view where, WorkBudget& budget);

  Place root() const { return {&root_, "#"}; }
  /// The same schema without `$ref`, `allOf` and `nullable`: what they add is joined in. The same
  /// result for the same schema each time, so that it can stand for it.
  Place resolved(const Place& place);
  /// The alternatives of `anyOf` or `oneOf`, each joined with what stands beside it.
  const std::vector<Place>& alternatives(const Place& place, const std::string& keyword);
  static Place member(const Place& place, std::string_view key);
  /// The path of what stands in it under a key, as far as messages show it.
  static std::string path_below(const std::string& path, std::string_view key);
  /// A schema that was made, kept as those of the text are.
  Place keep(Json schema, std::string path);

  template <typename... Args>
  [[noreturn]] void fail(const Place& place, fmt::format_string<Args...> format,
                         Args&&... args) const {
    fail_at(place.path, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  [[noreturn]] void fail_at(const std::string& path, const std::string& what) const;
  Place follow(const Place& from, const Json& reference);
  Place resolve(const Place& place, size_t levels);
  Json joined(const Place& a, const Place& b);

  WorkBudget& budget_;
  std::string where_;
  Json root_;
  std::deque<Json> made_;  // schemas that are joined of others
  std::map<const Json*, Place> resolved_;
  std::map<const Json*, std::vector<Place>> alternatives_;  // by their list
};

/// Keywords that say nothing about what a text may be.
bool is_annotation(std::string_view keyword);

}  // namespace megalith::grammars
