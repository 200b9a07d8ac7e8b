// SPDX-License-Identifier: Apache-2.0
#include "chat_values/value.h"

#include <algorithm>
#include <cmath>

#include "chat_values/python_text.h"

namespace megalith::chat {
namespace {

/// What a text takes beside its bytes: its block of memory, and its place in a list that grows.
constexpr size_t kTextBytes = 128;

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

size_t depth_of(const Value& value) {
  if (const Sequence* sequence = value.sequence()) return sequence->depth;
  if (const Dict* dict = value.dict()) return dict->depth;
  return 0;
}

void require_depth(size_t depth, const Budget& budget) {
  if (depth > budget.limits().nesting)
    throw Fault("values within values deeper than {} levels", budget.limits().nesting);
}

std::string_view sequence_name(SequenceKind kind) {
  switch (kind) {
    case SequenceKind::list:
      return "list";
    case SequenceKind::tuple:
      return "tuple";
    case SequenceKind::range:
      return "range";
    case SequenceKind::view:
      return "dict_view";
    case SequenceKind::iterator:
      return "generator";
  }
  return "list";
}

}  // namespace

Value Value::undefined(std::string why) {
  return Value(Held(Undefined{std::make_shared<const std::string>(std::move(why))}));
}

Value Value::text(std::string bytes, Budget& budget, bool is_safe) {
  budget.make(bytes.size() + kTextBytes);
  return Value(Held(Text{std::make_shared<const std::string>(std::move(bytes)), is_safe}));
}

const Sequence* Value::sequence() const {
  const auto* held = get_if<std::shared_ptr<const Sequence>>();
  return held ? held->get() : nullptr;
}

const Dict* Value::dict() const {
  const auto* held = get_if<std::shared_ptr<const Dict>>();
  return held ? held->get() : nullptr;
}

std::optional<int64_t> Value::whole() const {
  if (const bool* truth = get_if<bool>()) return *truth ? 1 : 0;
  if (const int64_t* whole = get_if<int64_t>()) return *whole;
  return std::nullopt;
}

std::optional<double> Value::number() const {
  if (const double* real = get_if<double>()) return *real;
  if (const auto value = whole()) return static_cast<double>(*value);
  return std::nullopt;
}

const Value* Dict::find(std::string_view key) const {
  const auto found = index.find("s" + std::string(key));
  return found == index.end() ? nullptr : &entries[found->second].second;
}

const Value* Dict::find(const Value& key, Budget& budget) const {
  const auto found = index.find(key_of(key, budget));
  return found == index.end() ? nullptr : &entries[found->second].second;
}

void Dict::set(const Value& key, Value value, Budget& budget) {
  const auto [place, is_new] = index.emplace(key_of(key, budget), entries.size());
  budget.make(sizeof(entries[0]) + place->first.size() + 64);
  depth = std::max({depth, depth_of(key) + 1, depth_of(value) + 1});
  if (is_new)
    entries.emplace_back(key, std::move(value));
  else
    entries[place->second].second = std::move(value);
}

const Value* Namespace::find(std::string_view name) const {
  const auto found = attributes.find(std::string(name));
  return found == attributes.end() ? nullptr : &found->second;
}

void Namespace::set(const std::string& name, Value value) {
  if (name.starts_with('_'))
    throw Fault("a namespace takes no attribute that begins with an underscore: '{}'", name);
  attributes.insert_or_assign(name, std::move(value));
}

std::vector<std::optional<Value>> Arguments::bind(std::string_view callee,
                                                  std::vector<std::string_view> parameters) const {
  if (positional.size() > parameters.size())
    throw Fault("{} takes at most {} arguments, not {}", callee, parameters.size(),
                positional.size());
  std::vector<std::optional<Value>> bound(parameters.size());
  std::copy(positional.begin(), positional.end(), bound.begin());
  for (const auto& [name, value] : keywords) {
    const auto place = std::find(parameters.begin(), parameters.end(), name);
    if (place == parameters.end()) throw Fault("{} takes no argument '{}'", callee, name);
    auto& slot = bound[static_cast<size_t>(place - parameters.begin())];
    if (slot) throw Fault("{} has two values for its argument '{}'", callee, name);
    slot = value;
  }
  return bound;
}

Value make_sequence(SequenceKind kind, Items items, Budget& budget, std::string type_name) {
  budget.make(sizeof(Sequence) + items.size() * sizeof(Value));
  auto sequence = std::make_shared<Sequence>();
  sequence->kind = kind;
  sequence->type_name = type_name.empty() ? std::string(sequence_name(kind)) : type_name;
  for (const Value& item : items) sequence->depth = std::max(sequence->depth, depth_of(item) + 1);
  require_depth(sequence->depth, budget);
  sequence->items = std::move(items);
  return Value(Value::Held(std::shared_ptr<const Sequence>(std::move(sequence))));
}

Value make_list(Items items, Budget& budget) {
  return make_sequence(SequenceKind::list, std::move(items), budget);
}

Value make_iterator(Items items, Budget& budget) {
  return make_sequence(SequenceKind::iterator, std::move(items), budget);
}

Value make_dict(Dict dict, Budget& budget) {
  require_depth(dict.depth, budget);
  return Value(Value::Held(std::shared_ptr<const Dict>(std::make_shared<Dict>(std::move(dict)))));
}

Value make_callable(std::string name, std::function<Value(const Arguments&, Budget&)> call) {
  auto callable = std::make_shared<Callable>();
  callable->name = std::move(name);
  callable->call = std::move(call);
  return Value(Value::Held(std::shared_ptr<const Callable>(std::move(callable))));
}

Items items_of(const Value& value, Budget& budget) {
  if (value.is_undefined()) return {};
  if (const Sequence* sequence = value.sequence()) {
    budget.make(sequence->items.size() * sizeof(Value));
    if (sequence->kind != SequenceKind::iterator) return sequence->items;
    const auto begin = sequence->items.begin() + static_cast<ptrdiff_t>(sequence->taken);
    Items rest(begin, sequence->items.end());
    sequence->taken = sequence->items.size();
    return rest;
  }
  Items items;
  if (const Dict* dict = value.dict()) {
    budget.make(dict->entries.size() * sizeof(Value));
    for (const auto& entry : dict->entries) items.push_back(entry.first);
    return items;
  }
  if (value.is_text()) {
    for (const std::string_view character : characters_of(value.bytes(), budget))
      items.push_back(Value::text(std::string(character), budget));
    return items;
  }
  throw Fault("'{}' object is not iterable", type_name(value));
}

std::string_view type_name(const Value& value) {
  return std::visit(
      Overloaded{
          [](const Undefined&) -> std::string_view { return "Undefined"; },
          [](const Value::None&) -> std::string_view { return "NoneType"; },
          [](bool) -> std::string_view { return "bool"; },
          [](int64_t) -> std::string_view { return "int"; },
          [](double) -> std::string_view { return "float"; },
          [](const Text& text) -> std::string_view { return text.is_safe ? "Markup" : "str"; },
          [](const std::shared_ptr<const Sequence>& s) -> std::string_view { return s->type_name; },
          [](const std::shared_ptr<const Dict>&) -> std::string_view { return "dict"; },
          [](Namespace*) -> std::string_view { return "Namespace"; },
          [](const std::shared_ptr<const Callable>&) -> std::string_view { return "function"; },
      },
      value.held());
}

bool is_true(const Value& value) {
  return std::visit(
      Overloaded{
          [](const Undefined&) { return false; },
          [](const Value::None&) { return false; },
          [](bool truth) { return truth; },
          [](int64_t whole) { return whole != 0; },
          [](double real) { return real != 0; },
          [](const Text& text) { return !text.bytes->empty(); },
          [](const std::shared_ptr<const Sequence>& sequence) {
            return sequence->kind == SequenceKind::iterator || !sequence->items.empty();
          },
          [](const std::shared_ptr<const Dict>& dict) { return !dict->entries.empty(); },
          [](Namespace*) { return true; },
          [](const std::shared_ptr<const Callable>&) { return true; },
      },
      value.held());
}

std::string key_of(const Value& key, Budget& budget) {
  if (key.is_text()) {
    budget.look(key.bytes().size());
    return "s" + key.bytes();
  }
  if (const auto whole = key.whole()) return fmt::format("n{}", *whole);
  if (const double* real = key.get_if<double>()) {
    const bool is_whole = *real == std::floor(*real) && std::abs(*real) < 9e18;
    return is_whole ? fmt::format("n{}", static_cast<int64_t>(*real)) : fmt::format("f{}", *real);
  }
  if (key.is_none()) return "-";
  if (key.is_undefined()) return "u";
  if (const auto* callable = key.get_if<std::shared_ptr<const Callable>>())
    return fmt::format("c{}", fmt::ptr(callable->get()));
  const Sequence* sequence = key.sequence();
  if (sequence == nullptr || sequence->kind != SequenceKind::tuple)
    throw Fault("a value of type '{}' cannot be a key", type_name(key));
  std::string joined = "t";
  for (const Value& item : sequence->items) {
    const std::string part = key_of(item, budget);
    budget.make(part.size());
    joined += fmt::format("{}:{}", part.size(), part);
  }
  return joined;
}

}  // namespace megalith::chat
