// SPDX-License-Identifier: Apache-2.0
// Integers of what a run wrote, which may be negative. See base/json_number.h for those that are
// not.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

namespace megalith::report {

/// The integer that `value` is; nothing when it is none, or none of 64 bits with a sign (the
/// library makes -1 of 18446744073709551615).
std::optional<int64_t> integer_in(const nlohmann::ordered_json& value);

}  // namespace megalith::report
