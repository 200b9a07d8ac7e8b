// SPDX-License-Identifier: Apache-2.0
// Whole numbers out of JSON from outside. The library converts whatever number stands there: 1e300
// to an integer is undefined behaviour, 18446744073709551615 becomes -1. So nobody asks it directly
// for an integer that a file holds.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

namespace megalith {

/// The whole number that `value` is, negative ones too; nothing when it is another thing, has a
/// fraction (1.0 too), or does not fit. For those whose errors are of another kind.
std::optional<int64_t> whole_number_in(const nlohmann::json& value);
std::optional<int64_t> whole_number_in(const nlohmann::ordered_json& value);

/// The whole number under `key`, at least 0. IntegrityError when it is absent, has a fraction, or
/// is negative or above `most`; `where` begins its message: "checkpoint: its state".
int64_t whole_number(const nlohmann::json& object, std::string_view key, std::string_view where,
                     int64_t most = INT64_MAX);

/// The finite number under `key`. IntegrityError when it is absent or no number.
double finite_number(const nlohmann::json& object, std::string_view key, std::string_view where);

}  // namespace megalith
