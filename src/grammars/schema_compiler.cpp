// SPDX-License-Identifier: Apache-2.0
#include "grammars/schema_compiler.h"

#include <algorithm>
#include <utility>

namespace megalith::grammars {
namespace {

constexpr int kMostNested = 200;

// Keywords that are compiled, by the type that they are about ("": all of them).
struct Keyword {
  std::string_view name, type;
};
constexpr Keyword kKeywords[] = {
    {"type", ""},
    {"enum", ""},
    {"const", ""},
    {"anyOf", ""},
    {"oneOf", ""},
    {"minLength", "string"},
    {"maxLength", "string"},
    {"pattern", "string"},
    {"format", ""},
    {"minimum", "number"},
    {"maximum", "number"},
    {"exclusiveMinimum", "number"},
    {"exclusiveMaximum", "number"},
    {"properties", "object"},
    {"required", "object"},
    {"additionalProperties", "object"},
    {"unevaluatedProperties", "object"},
    {"minProperties", "object"},
    {"maxProperties", "object"},
    {"items", "array"},
    {"prefixItems", "array"},
    {"additionalItems", "array"},
    {"minItems", "array"},
    {"maxItems", "array"},
};
constexpr std::string_view kTypes[] = {"null",   "boolean", "integer", "number",
                                       "string", "array",   "object"};

bool is_any_object(const Place& place) {
  return std::ranges::none_of(kKeywords, [&](const Keyword& keyword) {
    return keyword.type == "object" && place.schema->contains(std::string(keyword.name));
  });
}

bool is_of_type(const Json& value, std::string_view type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") {
    return value.is_number_integer() ||
           (value.is_number_float() && decimal_of(value) && decimal_of(value)->fraction.empty());
  }
  if (type == "number") return value.is_number();
  if (type == "string") return value.is_string();
  return type == "array" ? value.is_array() : value.is_object();
}

}  // namespace

Automaton SchemaCompiler::compile(const Place& root, std::string_view what) && {
  const State start = builder_.add_state(), end = builder_.add_state();
  value(root, start, end);
  while (!todo_.empty()) {
    const std::function<void()> build = std::move(todo_.front());
    todo_.pop_front();
    build();
  }
  return std::move(builder_).finish(start, end, what);
}

/// The beginning of the level of a schema's objects or lists; `build` fills it, once, later.
State SchemaCompiler::level(const Json* schema, char kind, std::function<void(State)> build) {
  const auto [found, is_new] = levels_.try_emplace({schema, kind}, 0);
  if (!is_new) return found->second;
  const State begin = found->second = builder_.add_state();
  todo_.emplace_back([begin, build = std::move(build)] { build(begin); });
  return begin;
}

void SchemaCompiler::require_known(const Place& place) const {
  for (const auto& [key, ignored] : place.schema->items()) {
    const bool known = std::ranges::find(kKeywords, key, &Keyword::name) != std::end(kKeywords);
    const bool says_nothing = key == "uniqueItems" && place.schema->at(key) == false;
    if (!known && !is_annotation(key) && !says_nothing)
      document_.fail(place, "'{}' is not supported", key);
  }
}

/// Those of `type`, or else those that the keywords are about.
std::vector<std::string> SchemaCompiler::types_of(const Place& place) const {
  std::vector<std::string> types;
  const auto add = [&](std::string_view type) {
    if (std::ranges::find(types, type) == types.end()) types.emplace_back(type);
  };
  if (place.schema->contains("type")) {
    const Json& named = place.schema->at("type");
    budget_.spend(named.size());
    const auto add_named = [&](const Json& name) {
      const bool known = name.is_string() &&
                         std::ranges::find(kTypes, name.get<std::string>()) != std::end(kTypes);
      if (!known) document_.fail(place, "there is no type {}", name.dump());
      add(name.get<std::string>());
    };
    if (!named.is_array()) add_named(named);
    if (named.is_array())
      for (const Json& name : named) add_named(name);
    // Whole numbers are numbers: not to be read in two ways.
    if (std::ranges::find(types, "number") != types.end()) std::erase(types, "integer");
    return types;
  }
  for (const Keyword& keyword : kKeywords)
    if (!keyword.type.empty() && place.schema->contains(std::string(keyword.name)))
      add(keyword.type);
  if (types.empty() && place.schema->contains("format")) add("string");
  return types;
}

void SchemaCompiler::value(const Place& written, State from, State to) {
  budget_.spend(100 + written.schema->size());
  if (depth_ >= kMostNested)
    document_.fail(written, "alternatives and references are nested too deeply, or in a circle");
  ++depth_;
  const Place place = document_.resolved(written);
  const Json& schema = *place.schema;
  if (schema.is_boolean() || (schema.is_object() && schema.empty())) {
    if (schema != false) any_value(from, to);
  } else if (!schema.is_object()) {
    document_.fail(place, "a schema must be an object, true or false");
  } else {
    require_known(place);
    const bool any = schema.contains("anyOf"), one = schema.contains("oneOf");
    if (any && one) document_.fail(place, "'anyOf' beside 'oneOf' is not supported");
    if (any || one) {
      for (const Place& alternative : document_.alternatives(place, any ? "anyOf" : "oneOf"))
        value(alternative, from, to);
    } else if (schema.contains("enum") || schema.contains("const")) {
      literal(place, from, to);
    } else if (const auto types = types_of(place); !types.empty() || schema.contains("type")) {
      for (const std::string& type : types) of_type(place, type, from, to);
    } else {
      any_value(from, to);
    }
  }
  --depth_;
}

void SchemaCompiler::optional_value(const std::optional<Place>& place, State from, State to) {
  place ? value(*place, from, to) : any_value(from, to);
}

void SchemaCompiler::of_type(const Place& place, std::string_view type, State from, State to) {
  if (type == "null") return builder_.add_text(from, "null", to);
  if (type == "boolean") {
    builder_.add_text(from, "true", to);
    return builder_.add_text(from, "false", to);
  }
  if (type == "string") return string(place, from, to);
  if (type == "integer" || type == "number") return number(place, type == "integer", from, to);
  if (type == "object") {
    const auto build = [this, place](State begin) { object(object_rules(place), begin); };
    const State begin = is_any_object(place) ? any_object() : level(place.schema, '{', build);
    return builder_.add_open(from, '{', begin, to);
  }
  const auto build = [this, place](State begin) { array(array_rules(place), begin); };
  builder_.add_open(from, '[', level(place.schema, '[', build), to);
}

void SchemaCompiler::any_value(State from, State to) {
  builder_.add_text(from, "null", to);
  builder_.add_text(from, "true", to);
  builder_.add_text(from, "false", to);
  if (!any_decimal_) any_decimal_ = decimal_numbers({}, budget_);
  add_text_automaton(builder_, from, *any_decimal_, to);
  builder_.add_open(from, '"', strings_.any(), to);
  builder_.add_open(from, '{', any_object(), to);
  builder_.add_open(from, '[', any_array(), to);
}

State SchemaCompiler::any_object() {
  if (any_object_) return *any_object_;
  const State begin = builder_.add_state();
  any_object_ = begin;
  todo_.emplace_back([this, begin] { object({}, begin); });
  return begin;
}

State SchemaCompiler::any_array() {
  if (any_array_) return *any_array_;
  const State begin = builder_.add_state();
  any_array_ = begin;
  todo_.emplace_back([this, begin] { array({}, begin); });
  return begin;
}

void SchemaCompiler::literal(const Place& place, State from, State to) {
  for (const auto& [key, ignored] : place.schema->items())
    if (key != "enum" && key != "const" && key != "type" && !is_annotation(key))
      document_.fail(place, "'{}' beside 'enum' or 'const' is not supported", key);
  if (place.schema->contains("enum") && !place.schema->at("enum").is_array())
    document_.fail(place, "'enum' must be a list of values");
  const std::vector<std::string> types = types_of(place);
  const auto fits = [&](const Json& one) {
    return !place.schema->contains("type") ||
           std::ranges::any_of(types, [&](const auto& type) { return is_of_type(one, type); });
  };
  std::vector<const Json*> values;
  if (place.schema->contains("enum")) {
    for (const Json& one : place.schema->at("enum")) {
      budget_.spend(20);
      const bool both = !place.schema->contains("const") || place.schema->at("const") == one;
      if (both && fits(one)) values.push_back(&one);
    }
  } else if (fits(place.schema->at("const"))) {
    values.push_back(&place.schema->at("const"));
  }
  one_of(place, values, from, to);
}

/// These values; objects with their properties in the order given.
void SchemaCompiler::one_of(const Place& place, const std::vector<const Json*>& values, State from,
                            State to) {
  std::vector<std::string> strings, texts;
  for (const Json* one : values) {
    if (one->is_string()) {
      strings.push_back(one->get<std::string>());
      budget_.spend(strings.back().size());
    } else if (!one->is_structured()) {
      texts.push_back(one->dump());
    } else {
      value(constant(*one, place.path), from, to);
    }
  }
  if (!strings.empty()) builder_.add_open(from, '"', strings_.one_of(std::move(strings)), to);
  std::ranges::sort(texts);
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  if (!texts.empty()) add_trie(builder_, from, texts, std::nullopt, to);
}

/// A list or an object as a schema: its items and properties are constants, and all must be there.
Place SchemaCompiler::constant(const Json& value, const std::string& path) {
  const bool is_list = value.is_array();
  Json schema = Json::object();
  schema["type"] = is_list ? "array" : "object";
  schema[is_list ? "items" : "additionalProperties"] = false;
  if (is_list) schema["minItems"] = value.size();
  Json constants = is_list ? Json::array() : Json::object(), names = Json::array();
  for (const auto& [key, child] : value.items()) {
    Json one = Json::object();
    one["const"] = child;
    names.push_back(key);
    if (is_list)
      constants.push_back(std::move(one));
    else
      constants[key] = std::move(one);
  }
  schema[is_list ? "prefixItems" : "properties"] = std::move(constants);
  if (!is_list) schema["required"] = std::move(names);
  return document_.keep(std::move(schema), path);
}

/// White space that may be where a line may break.
void SchemaCompiler::space(State from, State to) {
  builder_.add_epsilon(from, to);
  if (whitespace_ == Whitespace::compact) return;
  builder_.add_byte(from, ' ', to);
  if (whitespace_ == Whitespace::in_line) return;
  State at = builder_.add_state();
  builder_.add_byte(from, '\n', at);
  builder_.add_epsilon(at, to);
  for (int i = 0; i < kMostIndent; ++i) {
    const State next = builder_.add_state();
    builder_.add_byte(at, ' ', next);
    builder_.add_byte(at, '\t', next);
    builder_.add_epsilon(next, to);
    at = next;
  }
}

void SchemaCompiler::space_behind_colon(State from, State to) {
  builder_.add_epsilon(from, to);
  if (whitespace_ != Whitespace::compact) builder_.add_byte(from, ' ', to);
}

}  // namespace megalith::grammars
