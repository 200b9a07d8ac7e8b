// SPDX-License-Identifier: Apache-2.0
#include "chat_values/methods.h"

#include <algorithm>
#include <array>
#include <span>

#include "chat_values/operators.h"

namespace megalith::chat {
namespace {

bool is_among(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What Python's types have and this room does not: refused by name, for a template may count on it.
constexpr auto kTextNames = std::to_array<std::string_view>(
    {"casefold", "center", "encode", "expandtabs", "format", "format_map", "isalnum", "isascii",
     "isdecimal", "isidentifier", "isnumeric", "isprintable", "istitle", "maketrans", "rindex",
     "rpartition", "swapcase", "translate", "zfill"});
// What changes an object in place: the sandbox forbids it.
constexpr auto kListChanges = std::to_array<std::string_view>(
    {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"});
constexpr auto kDictChanges =
    std::to_array<std::string_view>({"clear", "pop", "popitem", "setdefault", "update"});

Value unsafe(const Value& object, std::string_view name) {
  return Value::undefined(
      fmt::format("access to attribute '{}' of '{}' object is unsafe", name, type_name(object)));
}

/// What methods of safe text are given: what they put in is escaped.
Arguments with_escapes(std::string_view name, Arguments arguments, Budget& budget) {
  Items& given = arguments.positional;
  if (name == "replace" && given.size() > 1) given[1] = escaped(given[1], budget);
  if (name == "join" && given.size() == 1) {
    Items items = items_of(given[0], budget);
    for (Value& item : items) item = escaped(item, budget);
    given[0] = make_list(std::move(items), budget);
  }
  return arguments;
}

/// What methods of safe text return: each text of it is safe too.
Value as_safe(const Value& value, Budget& budget) {
  if (value.is_text()) return Value::text(value.bytes(), budget, true);
  const Sequence* sequence = value.sequence();
  if (!sequence) return value;
  Items items = sequence->items;
  for (Value& item : items) item = as_safe(item, budget);
  return make_sequence(sequence->kind, std::move(items), budget);
}

/// As in Python most methods take arguments without names only.
Value bound(const Value& object, std::string_view name, Method method) {
  const bool takes_names = name == "split" || name == "rsplit" || name == "splitlines";
  const std::string called = fmt::format("the method {} of {}", name, type_name(object));
  return make_callable(
      called, [=, plain = std::string(name)](const Arguments& arguments, Budget& budget) {
        if (!takes_names && !arguments.keywords.empty())
          throw Fault("{} takes no argument '{}'", called, arguments.keywords.front().first);
        if (!object.is_safe_text()) return method(object, arguments, budget);
        return as_safe(method(object, with_escapes(plain, arguments, budget), budget), budget);
      });
}

Value view_of(const Value& self, std::string type, bool with_keys, bool with_values,
              Budget& budget) {
  Items items;
  for (const auto& [key, value] : self.dict()->entries) {
    if (with_keys && with_values)
      items.push_back(make_sequence(SequenceKind::tuple, {key, value}, budget));
    else
      items.push_back(with_keys ? key : value);
  }
  return make_sequence(SequenceKind::view, std::move(items), budget, std::move(type));
}

Value dict_items(const Value& self, const Arguments& arguments, Budget& budget) {
  arguments.bind("items", {});
  return view_of(self, "dict_items", true, true, budget);
}

Value dict_keys(const Value& self, const Arguments& arguments, Budget& budget) {
  arguments.bind("keys", {});
  return view_of(self, "dict_keys", true, false, budget);
}

Value dict_values(const Value& self, const Arguments& arguments, Budget& budget) {
  arguments.bind("values", {});
  return view_of(self, "dict_values", false, true, budget);
}

Value dict_get(const Value& self, const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("get", {"key", "default"});
  if (!bound[0]) throw Fault("get needs a key");
  const Value* found = self.dict()->find(*bound[0], budget);
  return found ? *found : bound[1].value_or(Value::none());
}

Value copied(const Value& self, const Arguments& arguments, Budget&) {
  arguments.bind("copy", {});
  return self;  // nothing changes it
}

Value list_index(const Value& self, const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("index", {"value"});
  if (!bound[0]) throw Fault("index needs a value");
  const Items& items = self.sequence()->items;
  for (size_t i = 0; i < items.size(); ++i)
    if (equal(items[i], *bound[0], budget)) return Value::integer(static_cast<int64_t>(i));
  throw Fault("the value that 'index' asks for is not in the list");
}

Value list_count(const Value& self, const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("count", {"value"});
  if (!bound[0]) throw Fault("count needs a value");
  const Items& items = self.sequence()->items;
  return Value::integer(std::count_if(items.begin(), items.end(), [&](const Value& item) {
    return equal(item, *bound[0], budget);
  }));
}

std::optional<Value> dict_method(const Value& object, std::string_view name) {
  if (name == "items") return bound(object, name, dict_items);
  if (name == "keys") return bound(object, name, dict_keys);
  if (name == "values") return bound(object, name, dict_values);
  if (name == "get") return bound(object, name, dict_get);
  if (name == "copy") return bound(object, name, copied);
  if (is_among(name, kDictChanges)) return unsafe(object, name);
  if (name == "fromkeys") throw Fault("the method 'fromkeys' of dict is not supported");
  return std::nullopt;
}

std::optional<Value> sequence_method(const Value& object, std::string_view name) {
  const SequenceKind kind = object.sequence()->kind;
  if (kind > SequenceKind::tuple) return std::nullopt;
  if (name == "index") return bound(object, name, list_index);
  if (name == "count") return bound(object, name, list_count);
  if (kind == SequenceKind::tuple) return std::nullopt;
  if (name == "copy") return bound(object, name, copied);
  if (is_among(name, kListChanges)) return unsafe(object, name);
  return std::nullopt;
}

}  // namespace

std::optional<Value> method_of(const Value& object, std::string_view name, Budget&) {
  if (object.is_text()) {
    if (const Method method = text_method(name)) return bound(object, name, method);
    if (is_among(name, kTextNames)) throw Fault("the method '{}' of str is not supported", name);
  }
  if (object.dict()) return dict_method(object, name);
  if (object.sequence()) return sequence_method(object, name);
  return std::nullopt;
}

}  // namespace megalith::chat
