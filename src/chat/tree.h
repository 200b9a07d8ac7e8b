// SPDX-License-Identifier: Apache-2.0
// A template as a tree of statements and expressions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "chat_values/value.h"

namespace megalith::chat {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

enum class ExpressionKind : uint8_t {
  literal,      // value
  name,         // text
  list,         // operands
  tuple,        // operands
  dict,         // operands: key, value, key, value
  negation,     // `not`: operands[0]
  sign,         // unary, text is "+" or "-": operands[0]
  arithmetic,   // text is the operator: operands[0], [1]
  both,         // `and`: operands[0], [1]
  either,       // `or`
  concat,       // ~ of all operands
  compare,      // operands[0] signs[0] operands[1] signs[1] ...
  conditional,  // operands: value, condition, value if it is false (may be absent)
  attribute,    // operands[0] . text
  item,         // operands[0] [operands[1]]
  slice,        // operands[0] [ [1] : [2] : [3] ], each but the first may be null
  call,         // operands[0] (arguments)
  filter,       // operands[0] | text (arguments); operands[0] null: the block of the tag `filter`
  test          // operands[0] is text (arguments)
};

struct Expression {
  ExpressionKind kind;
  uint32_t at;       // offset in the source
  size_t depth = 1;  // levels of the tree below and with this one
  std::string text;
  Value value;
  std::vector<std::string> signs;
  std::vector<ExpressionPtr> operands;
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> keywords;
};

struct Statement;
using Block = std::vector<std::unique_ptr<Statement>>;

/// What can be assigned to: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  uint32_t at = 0;
  std::string name;
  std::string attribute;
  std::vector<Target> parts;
  bool is_tuple = false;
};

/// A macro, the body of a `call` block or of a `generation` block.
struct MacroTree {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  Block body;
  std::vector<std::string> unset;  // scope_names.h
  bool takes_more = false;         // the body names `varargs`
  bool takes_keywords = false;     // ... `kwargs`
  bool takes_caller = false;       // ... `caller`
};

enum class StatementKind : uint8_t {
  data,        // text
  print,       // value
  set,         // target = value
  set_block,   // target = what body prints, through the filters of value
  condition,   // branches
  loop,        // for target in value if test: body, else otherwise
  macro,       // macro
  call,        // value is a call that gets macro as its `caller`
  filter,      // what body prints, through the filters of value
  with,        // assigns pairs in a scope of its own
  generation,  // a scope of its own
  break_,
  continue_
};

struct Statement {
  StatementKind kind;
  uint32_t at;
  std::string text;
  Target target;
  ExpressionPtr value, test;
  std::vector<std::pair<ExpressionPtr, Block>> branches;
  std::vector<std::pair<Target, ExpressionPtr>> pairs;
  Block body, otherwise;
  std::vector<std::string> unset, unset_otherwise;  // of the scopes of body and otherwise
  MacroTree macro;
};

struct TemplateTree {
  Block block;
  std::vector<std::string> unset;
};

/// Parses a normalized source; `trims_blocks` as in tokenize(). SyntaxFault (token.h) with its
/// place.
TemplateTree parse_template(std::string_view source, const Limits& limits, bool trims_blocks);

}  // namespace megalith::chat
