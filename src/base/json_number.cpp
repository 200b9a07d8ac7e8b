// SPDX-License-Identifier: Apache-2.0
#include "base/json_number.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"

namespace megalith {
namespace {

const nlohmann::json& member(const nlohmann::json& object, std::string_view key,
                             std::string_view where) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (found == object.end()) throw IntegrityError("{}: '{}' is missing", where, key);
  return *found;
}

template <class Json>
std::optional<int64_t> number_of(const Json& value) {
  // What is not negative and was parsed as whole is unsigned; built in memory it may be signed.
  const bool fits = value.is_number_unsigned()
                        ? value.template get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)
                        : value.is_number_integer();
  return fits ? std::optional(value.template get<int64_t>()) : std::nullopt;
}

}  // namespace

std::optional<int64_t> whole_number_in(const nlohmann::json& value) { return number_of(value); }
std::optional<int64_t> whole_number_in(const nlohmann::ordered_json& value) {
  return number_of(value);
}

int64_t whole_number(const nlohmann::json& object, std::string_view key, std::string_view where,
                     int64_t most) {
  const nlohmann::json& value = member(object, key, where);
  const auto number = whole_number_in(value);
  if (!number || *number < 0 || *number > most) {
    throw IntegrityError("{}: '{}' is {}, not a whole number from 0 to {}", where, key,
                         value.dump(), most);
  }
  return *number;
}

double finite_number(const nlohmann::json& object, std::string_view key, std::string_view where) {
  const nlohmann::json& value = member(object, key, where);
  if (!value.is_number() || !std::isfinite(value.get<double>()))
    throw IntegrityError("{}: '{}' is {}, not a number", where, key, value.dump());
  return value.get<double>();
}

}  // namespace megalith
