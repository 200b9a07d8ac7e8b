// SPDX-License-Identifier: Apache-2.0
// Whole numbers from JSON that comes from outside. The library converts any number it finds: 1e300
// to an integer is undefined behaviour, and 18446744073709551615 becomes -1. So integers from files
// are read only through these functions.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

namespace megalith {

/// `value` as a whole number, which may be negative; nothing if it is something else, has a
/// fraction (1.0 counts), or does not fit. For callers that report faults in their own way.
std::optional<int64_t> whole_number_in(const nlohmann::json& value);
std::optional<int64_t> whole_number_in(const nlohmann::ordered_json& value);

/// The whole number under `key`, at least 0. IntegrityError when it is absent, has a fraction, or
/// is negative or above `most`; `where` begins its message: "checkpoint: its state".
int64_t whole_number(const nlohmann::json& object, std::string_view key, std::string_view where,
                     int64_t most = INT64_MAX);

/// The finite number under `key`. IntegrityError when it is absent or no number.
double finite_number(const nlohmann::json& object, std::string_view key, std::string_view where);

}  // namespace megalith
