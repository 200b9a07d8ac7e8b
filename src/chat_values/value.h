// SPDX-License-Identifier: Apache-2.0
// The values of a template, which are Python's: what a template prints, compares and asks of them
// is what Python would. They do not change once made (the sandbox of Hugging Face forbids it); only
// a namespace does, and it belongs to the renderer, so that no two values hold each other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "chat_values/budget.h"

namespace megalith::chat {

class Value;
struct Sequence;
struct Dict;
struct Namespace;
struct Callable;
using Items = std::vector<Value>;

/// What has no value: prints as nothing, is false, and says `why` when more is asked of it.
struct Undefined {
  std::shared_ptr<const std::string> why;
};

/// UTF-8. `is_safe` marks what the filters `safe` and `escape` return (Python's Markup), and what
/// is made of that: text joined to it by + is escaped.
struct Text {
  std::shared_ptr<const std::string> bytes;
  bool is_safe = false;
};

class Value {
 public:
  struct None {};
  using Held =
      std::variant<Undefined, None, bool, int64_t, double, Text, std::shared_ptr<const Sequence>,
                   std::shared_ptr<const Dict>, Namespace*, std::shared_ptr<const Callable>>;

  Value() : held_(None{}) {}
  Value(Held held) : held_(std::move(held)) {}  // NOLINT: each alternative is a value
  static Value none() { return Value(); }
  static Value boolean(bool value) { return Value(Held(value)); }
  static Value integer(int64_t value) { return Value(Held(value)); }
  static Value real(double value) { return Value(Held(value)); }
  static Value undefined(std::string why);
  /// Counted by the budget, as lists and dicts are.
  static Value text(std::string bytes, Budget& budget, bool is_safe = false);

  const Held& held() const { return held_; }
  template <typename T>
  const T* get_if() const {
    return std::get_if<T>(&held_);
  }
  bool is_undefined() const { return get_if<Undefined>() != nullptr; }
  bool is_none() const { return get_if<None>() != nullptr; }
  bool is_text() const { return get_if<Text>() != nullptr; }
  bool is_safe_text() const { return is_text() && get_if<Text>()->is_safe; }
  /// The bytes of a text, which must be one.
  const std::string& bytes() const { return *std::get<Text>(held_).bytes; }
  const Sequence* sequence() const;
  const Dict* dict() const;
  /// Whole numbers, True and False too, as in Python.
  std::optional<int64_t> whole() const;
  /// Any number.
  std::optional<double> number() const;

 private:
  Held held_;
};

enum class SequenceKind : uint8_t { list, tuple, range, view, iterator };

/// The type of what the filter `groupby` gives: tuples whose parts have names too.
inline constexpr std::string_view kGroupName = "_GroupTuple";

/// Lists and tuples; ranges; the views of a dict's parts; and iterators, which filters like `map`
/// return and whose items can be taken once.
struct Sequence {
  SequenceKind kind = SequenceKind::list;
  std::string type_name;  // "list", "dict_items", "generator"
  Items items;
  std::string shown;         // how a range prints; empty for a slice of one
  size_t depth = 1;          // levels of values within it
  mutable size_t taken = 0;  // items of an iterator that are gone
};

/// In the order of the keys' first appearance. Keys are equal as in Python: 1, 1.0, True are one.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  std::unordered_map<std::string, size_t> index;  // by key_of
  size_t depth = 1;

  const Value* find(std::string_view key) const;
  const Value* find(const Value& key, Budget& budget) const;
  void set(const Value& key, Value value, Budget& budget);
};

/// What `namespace(...)` makes: the only thing whose attributes a template may set.
struct Namespace {
  std::unordered_map<std::string, Value> attributes;
  const Value* find(std::string_view name) const;
  void set(const std::string& name, Value value);
};

/// Positional and keyword arguments of a call.
struct Arguments {
  Items positional;
  std::vector<std::pair<std::string, Value>> keywords;

  /// The arguments by parameter, absent ones empty. Fault naming `callee` for too many or unknown
  /// ones.
  std::vector<std::optional<Value>> bind(std::string_view callee,
                                         std::vector<std::string_view> parameters) const;
};

/// A macro, a global function, a method with its object, or `loop` (which has attributes only).
struct Callable {
  std::string name;                                                 // "method upper", "macro tool"
  std::function<Value(const Arguments&, Budget&)> call;             // empty: cannot be called
  std::function<std::optional<Value>(std::string_view)> attribute;  // empty: none
};

/// A list or tuple (or another sequence) of items, with its depth within the limit.
Value make_sequence(SequenceKind kind, Items items, Budget& budget, std::string type_name = "");
Value make_list(Items items, Budget& budget);
/// What Python calls a generator, of items that are known.
Value make_iterator(Items items, Budget& budget);
Value make_dict(Dict dict, Budget& budget);
Value make_callable(std::string name, std::function<Value(const Arguments&, Budget&)> call);

/// The items that iterating over a value gives; an iterator has none left after. Fault if the value
/// cannot be iterated over.
Items items_of(const Value& value, Budget& budget);
/// Python's name of the type: "str", "dict".
std::string_view type_name(const Value& value);
bool is_true(const Value& value);
/// A key's identity as text; Fault for what cannot be a key.
std::string key_of(const Value& key, Budget& budget);

}  // namespace megalith::chat
