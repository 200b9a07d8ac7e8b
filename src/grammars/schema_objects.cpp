// SPDX-License-Identifier: Apache-2.0
// Objects and lists of a schema.
#include <algorithm>
#include <set>

#include "characters/utf8.h"
#include "grammars/schema_compiler.h"

namespace megalith::grammars {
namespace {

/// `true` and `{}` let anything be.
bool says_nothing(const Json& schema) {
  return schema == true || (schema.is_object() && schema.empty());
}

/// The texts but these.
CodeAutomaton all_but(const std::vector<std::string>& texts, WorkBudget& budget) {
  std::vector<std::map<uint32_t, uint32_t>> children(1);
  std::set<uint32_t> ends;
  for (const std::string& text : texts) {
    uint32_t node = 0;
    for (size_t at = 0; at < text.size();) {
      const auto [code, length] = characters::read_utf8(text.data() + at);
      const auto [found, is_new] =
          children[node].try_emplace(code, static_cast<uint32_t>(children.size()));
      node = found->second;
      if (is_new) children.emplace_back();
      at += length;
    }
    ends.insert(node);
  }
  CodeAutomaton automaton;
  automaton.nodes.resize(children.size() + 1);
  const auto other = static_cast<uint32_t>(children.size());
  automaton.nodes[other] = {{{CodeSet::all(), other}}, true};
  for (uint32_t i = 0; i < other; ++i) {
    budget.spend(30);
    std::vector<CodeRange> named;
    for (const auto& [code, child] : children[i]) {
      named.push_back({code, code});
      automaton.nodes[i].edges.push_back({CodeSet({{code, code}}), child});
    }
    automaton.nodes[i].edges.push_back({CodeSet(std::move(named)).complement(), other});
    automaton.nodes[i].is_end = !ends.contains(i);
  }
  return automaton;
}

}  // namespace

std::vector<SchemaCompiler::Property> SchemaCompiler::properties_of(const Place& place) const {
  std::vector<Property> properties;
  if (!place.schema->contains("properties")) return properties;
  const Place all = SchemaDocument::member(place, "properties");
  if (!all.schema->is_object()) document_.fail(place, "'properties' must be an object");
  for (const auto& [name, schema] : all.schema->items())
    properties.push_back({name, Place{&schema, SchemaDocument::path_below(all.path, name)}, false});
  return properties;
}

SchemaCompiler::ObjectRules SchemaCompiler::object_rules(const Place& place) const {
  ObjectRules rules;
  rules.properties = properties_of(place);
  const Json& schema = *place.schema;
  // Where the schema does not say whether there may be others, those with properties have none.
  rules.may_have_others = rules.properties.empty();
  bool says_none = false;
  for (const char* keyword : {"unevaluatedProperties", "additionalProperties"}) {
    if (!schema.contains(keyword)) continue;
    const Place others = SchemaDocument::member(place, keyword);
    says_none = *others.schema == false;
    rules.may_have_others = !says_none;
    rules.others.reset();
    if (!says_none && !says_nothing(*others.schema)) rules.others = others;
  }
  if (schema.contains("required")) {
    const Json& required = schema["required"];
    if (!required.is_array()) document_.fail(place, "'required' must be a list of names");
    std::map<std::string, size_t> places;
    for (size_t i = 0; i < rules.properties.size(); ++i) places[rules.properties[i].name] = i;
    for (const Json& name : required) {
      if (!name.is_string()) document_.fail(place, "'required' must be a list of names");
      const auto [found, is_new] =
          places.try_emplace(name.get<std::string>(), rules.properties.size());
      if (is_new && says_none)
        document_.fail(place, "'required' names '{}', which is none of its properties",
                       found->first);
      if (is_new) rules.properties.push_back({found->first, rules.others, true});
      rules.properties[found->second].required = true;
    }
  }
  read_object_sizes(place, rules);
  return rules;
}

/// A number of properties that the automaton would have to count is refused.
void SchemaCompiler::read_object_sizes(const Place& place, ObjectRules& rules) const {
  const uint64_t least = size_of(place, "minProperties").value_or(0);
  const std::optional<uint64_t> most = size_of(place, "maxProperties");
  const auto all = rules.properties.size();
  const auto required = static_cast<size_t>(
      std::ranges::count_if(rules.properties, [](const Property& p) { return p.required; }));
  if (least > required && least > 1)
    document_.fail(place,
                   "'minProperties' above 1 and the number of required ones "
                   "is not supported");
  rules.may_be_empty = least == 0;
  if (!most || (*most >= all && !rules.may_have_others)) return;
  if (required < all || *most < all)
    document_.fail(place,
                   "'maxProperties' beside properties that are not required "
                   "is not supported");
  rules.most_others = *most - all;
  if (*rules.most_others == 0) rules.may_have_others = false;
}

void SchemaCompiler::comma(State from, State to) {
  const State behind = builder_.add_state();
  builder_.add_byte(from, ',', behind);
  space(behind, to);
}

void SchemaCompiler::property(const Property& property, State from, State to) {
  const State named = builder_.add_state(), colon = builder_.add_state(),
              begin = builder_.add_state();
  builder_.add_open(from, '"', strings_.one_of({property.name}), named);
  builder_.add_byte(named, ':', colon);
  space_behind_colon(colon, begin);
  optional_value(property.schema, begin, to);
}

State SchemaCompiler::other_name(const ObjectRules& rules) {
  if (rules.properties.empty()) return strings_.any();
  std::vector<std::string> names;
  for (const Property& property : rules.properties) names.push_back(property.name);
  return strings_.of(all_but(names, budget_));
}

/// Any number of further ones, or up to a limit. Two may have one name: a finite automaton cannot
/// remember them, and readers of JSON take the last.
void SchemaCompiler::other_properties(const ObjectRules& rules, State from, State end) {
  const State name = other_name(rules);
  for (uint64_t count = 0;; ++count) {
    const State named = builder_.add_state(), colon = builder_.add_state(),
                begin = builder_.add_state(), behind = builder_.add_state();
    builder_.add_open(from, '"', name, named);
    builder_.add_byte(named, ':', colon);
    space_behind_colon(colon, begin);
    optional_value(rules.others, begin, behind);
    builder_.add_epsilon(behind, end);
    if (!rules.most_others) return comma(behind, from);
    if (count + 1 == *rules.most_others) return;
    from = builder_.add_state();
    comma(behind, from);
  }
}

// From behind the opening brace. All properties up to the i-th are settled at names[i].
void SchemaCompiler::object(const ObjectRules& rules, State begin) {
  const size_t count = rules.properties.size();
  size_t all_settled = count;  // from here on none is required
  while (all_settled > 0 && !rules.properties[all_settled - 1].required) --all_settled;
  const State last = builder_.add_state(), end = builder_.add_state(),
              inside = builder_.add_state();
  builder_.add_close(last, '}');
  space(end, last);
  space(begin, inside);
  if (all_settled == 0 && rules.may_be_empty) builder_.add_epsilon(inside, last);
  std::vector<State> names(count + 1);
  for (State& name : names) name = builder_.add_state();
  builder_.add_epsilon(inside, names[0]);
  for (size_t i = 0; i < count; ++i) {
    const State behind = builder_.add_state();
    property(rules.properties[i], names[i], behind);
    if (!rules.properties[i].required) builder_.add_epsilon(names[i], names[i + 1]);
    if (i + 1 >= all_settled) builder_.add_epsilon(behind, end);
    if (i + 1 < count || rules.may_have_others) comma(behind, names[i + 1]);
  }
  if (rules.may_have_others) other_properties(rules, names[count], end);
}

SchemaCompiler::ArrayRules SchemaCompiler::array_rules(const Place& place) const {
  ArrayRules rules;
  rules.least = size_of(place, "minItems").value_or(0);
  rules.most = size_of(place, "maxItems");
  const Json& schema = *place.schema;
  const bool is_old = schema.contains("items") && schema["items"].is_array();
  const char* const first = is_old ? "items" : "prefixItems";
  const char* const others = is_old ? "additionalItems" : "items";
  if (!is_old && schema.contains("additionalItems"))
    document_.fail(place, "'additionalItems' without a list of 'items' is not supported");
  if (is_old && schema.contains("prefixItems"))
    document_.fail(place, "'prefixItems' beside a list of 'items' is not supported");
  if (schema.contains(first)) {
    const Place list = SchemaDocument::member(place, first);
    if (!list.schema->is_array()) document_.fail(place, "'{}' must be a list of schemas", first);
    for (size_t i = 0; i < list.schema->size(); ++i)
      rules.first.push_back(
          {&(*list.schema)[i], SchemaDocument::path_below(list.path, std::to_string(i))});
    rules.may_have_others = false;  // unless the schema says so
  }
  if (schema.contains(others)) {
    const Place rest = SchemaDocument::member(place, others);
    rules.may_have_others = *rest.schema != false;
    if (!says_nothing(*rest.schema)) rules.others = rest;
  } else if (rules.may_have_others == false && rules.least > rules.first.size()) {
    document_.fail(place, "'minItems' is more than '{}' has; '{}' must say what the others are",
                   first, others);
  }
  return rules;
}

void SchemaCompiler::array(const ArrayRules& rules, State begin) {
  const State last = builder_.add_state(), end = builder_.add_state(),
              inside = builder_.add_state();
  builder_.add_close(last, ']');
  space(end, last);
  space(begin, inside);
  if (rules.least == 0) builder_.add_epsilon(inside, last);
  State at = builder_.add_state();
  builder_.add_epsilon(inside, at);
  for (uint64_t count = 0; !rules.most || count < *rules.most; ++count) {
    const bool is_first = count < rules.first.size();
    if (!is_first && !rules.may_have_others) return;
    const State behind = builder_.add_state();
    optional_value(is_first ? std::optional(rules.first[count]) : rules.others, at, behind);
    if (count + 1 >= rules.least) builder_.add_epsilon(behind, end);
    if (!is_first && !rules.most && count + 1 >= rules.least) return comma(behind, at);
    at = builder_.add_state();
    comma(behind, at);
  }
}

}  // namespace megalith::grammars
