// SPDX-License-Identifier: Apache-2.0
#include "text/json_source.h"

#include "base/error.h"

namespace megalith::text {

bool JsonSource::has(std::string_view key) const {
  JsonElement found;
  return element_[key].get(found) == simdjson::SUCCESS && !found.is_null();
}

JsonElement JsonSource::member(std::string_view key) const {
  JsonElement found;
  if (element_[key].get(found) != simdjson::SUCCESS)
    throw UserError("{}: the key \"{}\" is missing", where_, key);
  return found;
}

std::string JsonSource::string(std::string_view key) const {
  std::string_view value;
  if (member(key).get(value) != simdjson::SUCCESS)
    throw UserError("{}: \"{}\" is not a string", where_, key);
  return std::string(value);
}

bool JsonSource::boolean(std::string_view key, bool absent) const {
  if (!has(key)) return absent;
  bool value = false;
  if (member(key).get(value) != simdjson::SUCCESS)
    throw UserError("{}: \"{}\" is not true or false", where_, key);
  return value;
}

uint64_t JsonSource::whole(std::string_view key, uint64_t absent) const {
  if (!has(key)) return absent;
  uint64_t value = 0;
  if (member(key).get(value) != simdjson::SUCCESS)
    throw UserError("{}: \"{}\" is not a whole number >= 0", where_, key);
  return value;
}

std::vector<uint64_t> JsonSource::wholes(std::string_view key) const {
  std::vector<uint64_t> found;
  if (!has(key)) return found;
  const JsonElement list = member(key);
  if (!list.is_array()) throw UserError("{}: \"{}\" is not a list", where_, key);
  for (const JsonElement item : simdjson::dom::array(list)) {
    uint64_t value = 0;
    if (item.get(value) != simdjson::SUCCESS)
      throw UserError("{}: \"{}\" holds what is no whole number >= 0", where_, key);
    found.push_back(value);
  }
  return found;
}

JsonSource JsonSource::object(std::string_view key) const {
  const JsonElement found = member(key);
  if (!found.is_object()) throw UserError("{}: \"{}\" is not an object", where_, key);
  return JsonSource(found, where_);
}

std::vector<JsonSource> JsonSource::items(std::string_view key) const {
  std::vector<JsonSource> found;
  if (!has(key)) return found;
  const JsonElement list = member(key);
  if (!list.is_array()) throw UserError("{}: \"{}\" is not a list", where_, key);
  for (const JsonElement item : simdjson::dom::array(list)) {
    if (!item.is_object()) throw UserError("{}: \"{}\" holds what is not an object", where_, key);
    found.emplace_back(item, where_);
  }
  return found;
}

// Counted by walking: the parser's own size() saturates at 2^24 - 1.
size_t JsonSource::count(std::string_view key) const {
  size_t number = 0;
  if (!has(key)) return number;
  const JsonElement found = member(key);
  if (found.is_object())
    for ([[maybe_unused]] const auto field : simdjson::dom::object(found)) ++number;
  if (found.is_array())
    for ([[maybe_unused]] const JsonElement item : simdjson::dom::array(found)) ++number;
  return number;
}

std::string JsonSource::json(std::string_view key) const {
  return has(key) ? simdjson::minify(member(key)) : "null";
}

}  // namespace megalith::text
