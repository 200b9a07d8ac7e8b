// SPDX-License-Identifier: Apache-2.0
// A JSON schema to an automaton. A value is read between two states; strings, lists and objects
// are levels, made once for each schema, so that schemas may refer to each other in circles.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "grammar_automata/automaton.h"
#include "grammar_automata/number_range.h"
#include "grammar_automata/string_bytes.h"
#include "grammars/grammar.h"
#include "grammars/schema_document.h"

namespace megalith::grammars {

class SchemaCompiler {
 public:
  SchemaCompiler(SchemaDocument& document, Whitespace whitespace, WorkBudget& budget)
      : document_(document), whitespace_(whitespace), budget_(budget), strings_(builder_) {}

  Automaton compile(const Place& root, std::string_view what) &&;

 private:
  /// A property in the order of an object's text.
  struct Property {
    std::string name;
    std::optional<Place> schema;  // none: any value
    bool required = false;
  };
  /// What an object or a list asks for, as the schema says it.
  struct ObjectRules {
    std::vector<Property> properties;
    bool may_be_empty = true;
    bool may_have_others = true;
    std::optional<Place> others;  // what they must be; none: anything
    std::optional<uint64_t> most_others;
  };
  struct ArrayRules {
    std::vector<Place> first;
    bool may_have_others = true;
    std::optional<Place> others;
    uint64_t least = 0;
    std::optional<uint64_t> most;
  };

  // schema_compiler.cpp
  void value(const Place& place, State from, State to);
  void any_value(State from, State to);
  void of_type(const Place& place, std::string_view type, State from, State to);
  void one_of(const Place& place, const std::vector<const Json*>& values, State from, State to);
  Place constant(const Json& value, const std::string& path);
  void literal(const Place& place, State from, State to);
  std::vector<std::string> types_of(const Place& place) const;
  void require_known(const Place& place) const;
  State level(const Json* schema, char kind, std::function<void(State)> build);
  State any_object();
  State any_array();
  void space(State from, State to);
  void space_behind_colon(State from, State to);

  // schema_strings.cpp
  void string(const Place& place, State from, State to);
  State string_level(const Place& place, uint64_t least, std::optional<uint64_t> most);
  void number(const Place& place, bool is_whole, State from, State to);
  std::optional<uint64_t> size_of(const Place& place, std::string_view keyword) const;
  std::string text_of(const Place& place, std::string_view keyword) const;

  // schema_objects.cpp
  ObjectRules object_rules(const Place& place) const;
  std::vector<Property> properties_of(const Place& place) const;
  void read_object_sizes(const Place& place, ObjectRules& rules) const;
  void object(const ObjectRules& rules, State begin);
  void property(const Property& property, State from, State to);
  void other_properties(const ObjectRules& rules, State from, State end);
  void comma(State from, State to);
  State other_name(const ObjectRules& rules);
  ArrayRules array_rules(const Place& place) const;
  void array(const ArrayRules& rules, State begin);
  void optional_value(const std::optional<Place>& place, State from, State to);

  SchemaDocument& document_;
  Whitespace whitespace_;
  WorkBudget& budget_;
  AutomatonBuilder builder_;
  StringLevels strings_;
  int depth_ = 0;  // of values without a level between them
  std::map<std::pair<const Json*, char>, State> levels_;
  std::deque<std::function<void()>> todo_;
  std::map<std::string, State> string_levels_;
  std::optional<State> any_object_, any_array_;
  std::optional<CodeAutomaton> any_whole_, any_decimal_;
};

}  // namespace megalith::grammars
