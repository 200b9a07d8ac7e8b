// SPDX-License-Identifier: Apache-2.0
#include "grammars/schema_joining.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "grammars/schema_document.h"

namespace megalith::grammars {
namespace {

bool is_one_of(std::string_view key, std::initializer_list<std::string_view> keys) {
  return std::ranges::find(keys, key) != keys.end();
}

Json both(const Json& a, const Json& b) {
  if (a == b) return a;
  return Json{{"allOf", Json::array({a, b})}};
}

Json as_list(const Json& value) { return value.is_array() ? value : Json::array({value}); }

Json shared_types(const Json& a, const Json& b) {
  Json types = Json::array();
  const auto add = [&](const Json& type) {
    if (std::ranges::find(types, type) == types.end()) types.push_back(type);
  };
  for (const Json& x : as_list(a)) {
    for (const Json& y : as_list(b)) {
      if (x == y || (x == "integer" && y == "number")) add(x);
      if (x == "number" && y == "integer") add(y);
    }
  }
  return types;
}

Json with_all(Json list, const Json& more) {
  for (const Json& value : more)
    if (std::ranges::find(list, value) == list.end()) list.push_back(value);
  return list;
}

/// Properties of both, in the order of `a`, then of `b`. Those that one alone names must fit what
/// the other says of additional ones.
Json shared_properties(const Json& a, const Json& b) {
  const Json none = Json::object();
  const auto of = [&](const Json& schema) -> const Json& {
    return schema.contains("properties") ? schema["properties"] : none;
  };
  const auto beyond = [](const Json& schema, const Json& property) {
    if (!schema.contains("additionalProperties")) return property;
    const Json& additional = schema["additionalProperties"];
    return additional == true ? property : both(property, additional);
  };
  Json properties = Json::object();
  for (const auto& [key, property] : of(a).items())
    properties[key] = of(b).contains(key) ? both(property, of(b)[key]) : beyond(b, property);
  for (const auto& [key, property] : of(b).items())
    if (!of(a).contains(key)) properties[key] = beyond(a, property);
  return properties;
}

void join_key(Json& whole, const std::string& key, const Json& value, const FailJoin& fail) {
  Json& known = whole[key];
  if (known == value) return;
  const bool numbers = known.is_number() && value.is_number();
  if (key == "type") {
    known = shared_types(known, value);
  } else if (key == "required" && known.is_array() && value.is_array()) {
    known = with_all(known, value);
  } else if (numbers && is_one_of(key, {"minimum", "exclusiveMinimum", "minLength", "minItems",
                                        "minProperties"})) {
    if (known < value) known = value;
  } else if (numbers && is_one_of(key, {"maximum", "exclusiveMaximum", "maxLength", "maxItems",
                                        "maxProperties"})) {
    if (value < known) known = value;
  } else if (key == "enum" && known.is_array() && value.is_array()) {
    Json shared = Json::array();
    for (const Json& one : known)
      if (std::ranges::find(value, one) != value.end()) shared.push_back(one);
    known = std::move(shared);
  } else if (is_one_of(key, {"additionalProperties", "unevaluatedProperties", "items"}) &&
             !known.is_array() && !value.is_array()) {
    known = both(known, value);
  } else {
    fail(fmt::format("two schemas with '{}' that hold at once are not supported", key));
  }
}

/// `const` is a list of one.
Json with_enum(Json schema) {
  if (!schema.contains("const") || schema.contains("enum")) return schema;
  schema["enum"] = Json::array({schema["const"]});
  schema.erase("const");
  return schema;
}

}  // namespace

Json with_null(Json schema) {
  const bool may_be_null = schema.contains("nullable") && schema["nullable"] == true;
  if (schema.contains("nullable") && schema["nullable"].is_boolean()) schema.erase("nullable");
  if (may_be_null && schema.contains("type"))
    schema["type"] = with_all(as_list(schema["type"]), Json::array({"null"}));
  return schema;
}

Json join_schemas(const Json& a, const Json& b, const FailJoin& fail) {
  for (const Json* schema : {&a, &b})
    if (!schema->is_object() && !schema->is_boolean())
      fail("a schema must be an object, true or false");
  if (a == false || b == false) return false;
  if (!a.is_object()) return b;
  if (!b.is_object()) return a;
  const Json x = with_enum(a), y = with_enum(b);
  Json whole = x;
  for (const auto& [key, value] : y.items()) {
    if (key == "properties" || is_annotation(key)) continue;
    if (whole.contains(key))
      join_key(whole, key, value, fail);
    else
      whole[key] = value;
  }
  const bool has = x.contains("properties") || y.contains("properties");
  for (const Json* schema : {&x, &y})
    if (schema->contains("properties") && !(*schema)["properties"].is_object())
      fail("'properties' must be an object");
  if (has) whole["properties"] = shared_properties(x, y);
  return whole;
}

}  // namespace megalith::grammars
