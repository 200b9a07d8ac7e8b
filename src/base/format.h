// SPDX-License-Identifier: Apache-2.0
// Makes every type with a `format_as(x)` that returns text printable with fmt.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace megalith {
template <typename T>
concept NamesItself = (std::is_enum_v<T> || std::is_class_v<T>)&&requires(const T& x) {
  { format_as(x) } -> std::convertible_to<std::string_view>;
};
}  // namespace megalith

template <megalith::NamesItself T>
struct fmt::formatter<T, char> : fmt::formatter<std::string_view, char> {
  template <typename Context>
  auto format(const T& x, Context& context) const {
    const auto text = format_as(x);
    return fmt::formatter<std::string_view, char>::format(std::string_view(text), context);
  }
};
