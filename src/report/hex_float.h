// SPDX-License-Identifier: Apache-2.0
// Numbers that must compare bit for bit, as text: the hexadecimal form of C99's %a in its shortest
// spelling ("0x1.5p+3"), the same on every system. `loss_hex` and its like are made of these.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace megalith::report {

/// "0x1.5p+3", "-0x0p+0", "inf", "-inf", "nan" (any NaN).
std::string hex_float(double value);
/// The number that `hex_float` wrote; nothing if `text` is not wholly such a number.
std::optional<double> parse_hex_float(std::string_view text);

}  // namespace megalith::report
