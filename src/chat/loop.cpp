// SPDX-License-Identifier: Apache-2.0
#include "chat/loop.h"

#include <algorithm>

#include "chat_values/operators.h"

namespace megalith::chat {

const std::optional<Value>& LoopState::peek() {
  while (!after_ && place_ < items_.size()) {
    const Value item = items_[place_++];
    if (!filter_ || filter_(item)) after_ = item;
  }
  return after_;
}

std::optional<Value> LoopState::next() {
  if (!peek()) return std::nullopt;
  before_ = std::exchange(current_, std::exchange(after_, std::nullopt));
  ++index_;
  return current_;
}

int64_t LoopState::length() {
  if (filter_) {  // the rest must pass now
    Items rest;
    for (; place_ < items_.size(); ++place_)
      if (filter_(items_[place_])) rest.push_back(items_[place_]);
    items_ = std::move(rest);
    place_ = 0;
    filter_ = nullptr;
  }
  return index_ + (after_ ? 1 : 0) + static_cast<int64_t>(items_.size() - place_);
}

bool LoopState::has_changed(const Items& values, Budget& budget) {
  const bool same = last_changed_ && last_changed_->size() == values.size() &&
                    std::equal(values.begin(), values.end(), last_changed_->begin(),
                               [&](const Value& a, const Value& b) { return equal(a, b, budget); });
  if (!same) last_changed_ = values;
  return !same;
}

std::optional<Value> LoopState::attribute(const std::shared_ptr<LoopState>& self,
                                          std::string_view name) {
  if (name == "index") return Value::integer(index_);
  if (name == "index0") return Value::integer(index_ - 1);
  if (name == "first") return Value::boolean(index_ == 1);
  if (name == "last") return Value::boolean(!peek());
  if (name == "length") return Value::integer(length());
  if (name == "revindex") return Value::integer(length() - index_ + 1);
  if (name == "revindex0") return Value::integer(length() - index_);
  if (name == "depth") return Value::integer(1);
  if (name == "depth0") return Value::integer(0);
  if (name == "previtem")
    return index_ == 1 ? Value::undefined("there is no previous item") : *before_;
  if (name == "nextitem") return peek() ? *after_ : Value::undefined("there is no next item");
  if (name == "cycle")
    return make_callable("loop.cycle", [self](const Arguments& arguments, Budget&) {
      if (arguments.positional.empty()) throw Fault("loop.cycle needs values");
      const auto count = static_cast<int64_t>(arguments.positional.size());
      return arguments.positional[static_cast<size_t>((self->index_ - 1) % count)];
    });
  if (name == "changed")
    return make_callable("loop.changed", [self](const Arguments& arguments, Budget& budget) {
      return Value::boolean(self->has_changed(arguments.positional, budget));
    });
  return std::nullopt;
}

Value make_loop_value(const std::shared_ptr<LoopState>& state) {
  auto callable = std::make_shared<Callable>();
  callable->name = "loop";
  callable->attribute = [state](std::string_view name) { return state->attribute(state, name); };
  return Value(Value::Held(std::shared_ptr<const Callable>(std::move(callable))));
}

}  // namespace megalith::chat
