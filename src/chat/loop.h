// SPDX-License-Identifier: Apache-2.0
// The rounds of a `for`, and its variable `loop`.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "chat_values/value.h"

namespace megalith::chat {

/// Items pass the filter one by one as they are needed: the body may change what the filter asks.
class LoopState {
 public:
  using Filter = std::function<bool(const Value&)>;  // empty: all pass
  LoopState(Items items, Filter filter) : items_(std::move(items)), filter_(std::move(filter)) {}

  /// The item of the next round; nothing when there is none.
  std::optional<Value> next();
  /// An attribute of `loop`; nothing if it has none of that name.
  std::optional<Value> attribute(const std::shared_ptr<LoopState>& self, std::string_view name);

 private:
  const std::optional<Value>& peek();
  int64_t length();
  bool has_changed(const Items& values, Budget& budget);

  Items items_;
  Filter filter_;
  size_t place_ = 0;   // of the item after the peeked one
  int64_t index_ = 0;  // of this round, from 1
  std::optional<Value> before_, current_, after_;
  std::optional<Items> last_changed_;
};

/// The variable `loop`.
Value make_loop_value(const std::shared_ptr<LoopState>& state);

}  // namespace megalith::chat
