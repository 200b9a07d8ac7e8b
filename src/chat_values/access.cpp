// SPDX-License-Identifier: Apache-2.0
// Attributes, items and slices.
#include <algorithm>

#include "characters/utf8.h"
#include "chat_values/methods.h"
#include "chat_values/operators.h"
#include "chat_values/python_text.h"

namespace megalith::chat {
namespace {

std::string called(const Value& object) {
  return object.is_none() ? "None" : fmt::format("{} object", type_name(object));
}

Value no_attribute(const Value& object, std::string_view name) {
  return Value::undefined(
      fmt::format("'{}' has no attribute '{}'", called(object), name.substr(0, 200)));
}

Value no_element(const Value& object, std::string_view key) {
  return Value::undefined(fmt::format("{} has no element {}", called(object), key.substr(0, 200)));
}

/// The bytes before a character, counted from 0; all of them if it is beyond the last.
size_t offset_of(std::string_view text, int64_t character) {
  size_t offset = 0;
  for (; character > 0 && offset < text.size(); --character)
    offset += characters::read_utf8(text.data() + offset).length;
  return offset;
}

/// The item under a key; nothing if there is none.
std::optional<Value> found_item(const Value& object, const Value& key, Budget& budget) {
  if (const Dict* dict = object.dict()) {
    const Sequence* list = key.sequence();
    if (key.dict() || (list && list->kind != SequenceKind::tuple)) return std::nullopt;
    const Value* found = dict->find(key, budget);
    return found ? std::optional(*found) : std::nullopt;
  }
  const auto index = key.whole();
  if (!index) return std::nullopt;
  if (const Sequence* sequence = object.sequence()) {
    if (sequence->kind > SequenceKind::range) return std::nullopt;
    const auto size = static_cast<int64_t>(sequence->items.size());
    const int64_t place = *index < 0 ? *index + size : *index;
    if (place < 0 || place >= size) return std::nullopt;
    return sequence->items[static_cast<size_t>(place)];
  }
  if (object.is_text()) {
    const std::string_view text = object.bytes();
    const auto size = static_cast<int64_t>(length_of(text, budget));
    const int64_t place = *index < 0 ? *index + size : *index;
    if (place < 0 || place >= size) return std::nullopt;
    const size_t begin = offset_of(text, place);
    return Value::text(std::string(text.substr(begin, offset_of(text.substr(begin), 1))), budget,
                       object.is_safe_text());
  }
  return std::nullopt;
}

/// An attribute in Python's sense: a method, or what a namespace and `loop` have.
std::optional<Value> found_attribute(const Value& object, std::string_view name, Budget& budget) {
  if (auto* const* space = object.get_if<Namespace*>()) {
    const Value* found = (*space)->find(name);
    return found ? std::optional(*found) : std::nullopt;
  }
  if (const auto* callable = object.get_if<std::shared_ptr<const Callable>>())
    return (*callable)->attribute ? (*callable)->attribute(name) : std::nullopt;
  const Sequence* sequence = object.sequence();
  if (sequence && sequence->type_name == kGroupName && (name == "grouper" || name == "list"))
    return sequence->items[name == "list" ? 1 : 0];
  return method_of(object, name, budget);
}

void require_defined(const Value& object) {
  if (const Undefined* undefined = object.get_if<Undefined>()) throw Fault("{}", *undefined->why);
}

struct Range {
  int64_t begin, end, step;
};

// As Python's slice.indices.
Range indices(const Value& begin, const Value& end, const Value& step, int64_t size) {
  Range range{0, 0, step.is_none() ? 1 : whole_of(step, "the step of a slice")};
  if (range.step == 0) throw Fault("the step of a slice is 0");
  const int64_t low = range.step < 0 ? -1 : 0, high = range.step < 0 ? size - 1 : size;
  const auto place = [&](const Value& value, int64_t absent) {
    if (value.is_none()) return absent;
    int64_t index = whole_of(value, "a bound of a slice");
    if (index < 0) index = index < -size ? low : index + size;
    return std::clamp(index, low, std::max(low, high));
  };
  range.begin = place(begin, range.step < 0 ? high : low);
  range.end = place(end, range.step < 0 ? low : high);
  return range;
}

template <typename Take>
void for_each_index(const Range& range, int64_t size, const Take& take) {
  // A step beyond the size is like the size; then the sum below cannot overflow.
  const int64_t step = std::clamp(range.step, -size - 1, size + 1);
  for (int64_t i = range.begin; step > 0 ? i < range.end : i > range.end; i += step)
    take(static_cast<size_t>(i));
}

}  // namespace

Value attribute_of(const Value& object, std::string_view name, Budget& budget) {
  require_defined(object);
  if (const auto found = found_attribute(object, name, budget)) return *found;
  if (const Dict* dict = object.dict())
    if (const Value* found = dict->find(name)) return *found;
  return no_attribute(object, name);
}

Value item_of(const Value& object, const Value& key, Budget& budget) {
  require_defined(object);
  if (const auto found = found_item(object, key, budget)) return *found;
  if (!key.is_text()) return no_element(object, repr(key, budget));
  if (const auto found = found_attribute(object, key.bytes(), budget)) return *found;
  return no_attribute(object, key.bytes());
}

Value slice_of(const Value& object, const Value& begin, const Value& end, const Value& step,
               Budget& budget) {
  require_defined(object);
  if (object.is_text()) {
    const std::string_view whole = object.bytes();
    budget.look(whole.size() * 4);  // character by character
    const auto size = static_cast<int64_t>(length_of(whole, budget));
    const Range range = indices(begin, end, step, size);
    std::string text;
    if (range.step == 1) {  // no list of characters
      const size_t from = offset_of(whole, range.begin);
      text = whole.substr(from, offset_of(whole.substr(from), range.end - range.begin));
    } else {
      const auto all = characters_of(whole, budget);
      for_each_index(range, size, [&](size_t i) { text += all[i]; });
    }
    return Value::text(std::move(text), budget, object.is_safe_text());
  }
  const Sequence* sequence = object.sequence();
  if (!sequence || sequence->kind > SequenceKind::range)
    throw Fault("'{}' object cannot be sliced", type_name(object));
  const auto size = static_cast<int64_t>(sequence->items.size());
  Items items;
  for_each_index(indices(begin, end, step, size), size,
                 [&](size_t i) { items.push_back(sequence->items[i]); });
  return make_sequence(sequence->kind, std::move(items), budget);
}

Value item_at_path(const Value& object, const Value& path, Budget& budget, const Value& otherwise) {
  if (path.is_none()) return object;
  if (!path.is_text()) {
    const Value found = item_of(object, path, budget);
    return found.is_undefined() && !otherwise.is_none() ? otherwise : found;
  }
  Value value = object;
  const std::string_view text = path.bytes();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    const bool is_index = !part.empty() && part.size() < 10 &&
                          part.find_first_not_of("0123456789") == std::string_view::npos;
    const Value key = is_index ? Value::integer(std::stoi(std::string(part)))
                               : Value::text(std::string(part), budget);
    value = item_of(value, key, budget);
    if (value.is_undefined() && !otherwise.is_none()) value = otherwise;
    begin = end + 1;
  }
  return value;
}

int64_t length_of(const Value& value, Budget& budget) {
  if (value.is_undefined()) return 0;
  if (value.is_text()) return static_cast<int64_t>(length_of(value.bytes(), budget));
  if (const Dict* dict = value.dict()) return static_cast<int64_t>(dict->entries.size());
  const Sequence* sequence = value.sequence();
  if (!sequence || sequence->kind == SequenceKind::iterator)
    throw Fault("an object of type '{}' has no length", type_name(value));
  return static_cast<int64_t>(sequence->items.size());
}

int64_t whole_of(const Value& value, std::string_view what) {
  if (const Undefined* undefined = value.get_if<Undefined>()) throw Fault("{}", *undefined->why);
  const auto whole = value.whole();
  if (!whole) throw Fault("{} is of type '{}', not a whole number", what, type_name(value));
  return *whole;
}

}  // namespace megalith::chat
