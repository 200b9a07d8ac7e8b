// SPDX-License-Identifier: Apache-2.0
#include "protocols/fields.h"

#include <cmath>

#include "base/json_number.h"
#include "base/one_line.h"
#include "protocols/api_error.h"

namespace megalith::protocols {
namespace {

std::string shown_value(const Json& json) {
  if (json.is_array()) return "a list";
  if (json.is_object()) return "an object";
  return one_line(text_of_json(json), 40);
}

}  // namespace

Fields::Fields(const Json& object, std::string prefix)
    : object_(object), prefix_(std::move(prefix)) {
  if (!object.is_object())
    throw ApiError(prefix_.substr(0, prefix_.size() - 1), "{} is not an object",
                   prefix_.substr(0, prefix_.size() - 1));
}

const Json* Fields::find(std::string_view name) {
  asked_.emplace(name);
  const auto at = object_.find(std::string(name));
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

std::optional<int64_t> Fields::whole(std::string_view name, int64_t low, int64_t high) {
  const Json* const json = find(name);
  if (json == nullptr) return {};
  const auto value = whole_number_in(*json);
  if (!value || *value < low || *value > high) {
    throw ApiError(path(name), "{} must be a whole number from {} to {}, not {}", path(name), low,
                   high, shown_value(*json));
  }
  return value;
}

std::optional<double> Fields::number(std::string_view name, double low, double high) {
  const Json* const json = find(name);
  if (json == nullptr) return {};
  const double value = json->is_number() ? json->get<double>() : std::nan("");
  if (!(value >= low && value <= high)) {
    throw ApiError(path(name), "{} must be a number from {} to {}, not {}", path(name), low, high,
                   shown_value(*json));
  }
  return value;
}

std::optional<bool> Fields::flag(std::string_view name) {
  const Json* const json = find(name);
  if (json == nullptr) return {};
  if (!json->is_boolean())
    throw ApiError(path(name), "{} must be true or false, not {}", path(name), shown_value(*json));
  return json->get<bool>();
}

std::optional<std::string> Fields::text(std::string_view name, size_t most_bytes) {
  const Json* const json = find(name);
  if (json == nullptr) return {};
  if (!json->is_string())
    throw ApiError(path(name), "{} must be a string, not {}", path(name), shown_value(*json));
  const auto& value = json->get_ref<const std::string&>();
  if (value.size() > most_bytes) {
    throw ApiError(path(name), "{} has {} bytes; at most {} are taken", path(name), value.size(),
                   most_bytes);
  }
  return value;
}

void Fields::refuse(std::string_view name, std::string_view why, const Json& harmless) {
  const Json* const json = find(name);
  if (json == nullptr || *json == harmless) return;
  const bool says_nothing = (json->is_boolean() && !json->get<bool>()) ||
                            (json->is_number() && json->get<double>() == 0) ||
                            (json->is_structured() && json->empty()) ||
                            (json->is_string() && json->get_ref<const std::string&>().empty());
  if (!says_nothing)
    throw ApiError(path(name), "{} {}", path(name), why).with_reason("unsupported_parameter");
}

std::vector<std::string> Fields::unknown() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : object_.items())
    if (!asked_.contains(name)) names.push_back(prefix_ + one_line(name, 64));
  return names;
}

int32_t token_id(const Json& json, int64_t vocab, const std::string& where) {
  const auto id = whole_number_in(json);
  if (!id || *id < 0 || *id >= vocab) {
    throw ApiError(where, "{}: {} is no token of the vocabulary of {}", where, shown_value(json),
                   vocab);
  }
  return static_cast<int32_t>(*id);
}

std::vector<int32_t> token_ids(const Json& json, int64_t vocab, size_t most,
                               const std::string& where) {
  if (!json.is_array()) throw ApiError(where, "{} is not a list of tokens", where);
  if (json.size() > most)
    throw ApiError(where, "{} has {} tokens; at most {} are taken", where, json.size(), most);
  std::vector<int32_t> ids;
  ids.reserve(json.size());
  for (const Json& id : json) ids.push_back(token_id(id, vocab, where));
  return ids;
}

}  // namespace megalith::protocols
