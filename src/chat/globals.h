// SPDX-License-Identifier: Apache-2.0
// The functions that every template has.
#pragma once

#include <ctime>
#include <deque>
#include <optional>
#include <string_view>

#include "chat_values/value.h"

namespace megalith::chat {

/// What the functions need beyond their arguments. Lives as long as the rendering.
struct World {
  std::tm now{};                     // what strftime_now tells
  std::deque<Namespace> namespaces;  // that the template made
};

/// raise_exception, strftime_now, namespace, dict, range; nothing for another name. A Fault for
/// what Jinja has and this room does not.
std::optional<Value> find_global(std::string_view name, World& world);

/// strftime of C: `%d %b %Y`.
std::string format_time(const std::tm& now, const std::string& format);

}  // namespace megalith::chat
