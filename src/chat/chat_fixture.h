// SPDX-License-Identifier: Apache-2.0
// Tests only: a template and its variables as JSON, and what comes of them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "chat/conversation.h"

namespace megalith::chat {

/// Wednesday, 5 March 2025, 14:07:09.
inline std::tm fixed_time() {
  std::tm now{};
  now.tm_year = 125;
  now.tm_mon = 2;
  now.tm_mday = 5;
  now.tm_hour = 14;
  now.tm_min = 7;
  now.tm_sec = 9;
  now.tm_wday = 3;
  now.tm_yday = 63;
  return now;
}

inline std::string rendered(std::string_view source, std::string_view variables = "{}",
                            const Limits& limits = {}) {
  Budget budget{Limits()};
  const Value value = value_of(nlohmann::ordered_json::parse(variables), budget);
  return Template(source, "t.jinja", limits).render(*value.dict(), fixed_time());
}

/// The message of the UserError, or "no fault" with what was rendered.
inline std::string fault_of(std::string_view source, std::string_view variables = "{}",
                            const Limits& limits = {}) {
  try {
    return "no fault: " + rendered(source, variables, limits);
  } catch (const UserError& error) {
    return error.what();
  }
}

struct Case {
  std::string_view source, expected;
};

}  // namespace megalith::chat
