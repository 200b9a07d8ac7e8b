// SPDX-License-Identifier: Apache-2.0
// Guesses without a model: what followed the same tokens before (prompt lookup decoding: Saxena
// 2023).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace megalith::generate {

/// At most `count` tokens that came, the last time, behind the longest run of two to four tokens
/// that `ids` end with; none if there was no such time.
std::vector<int32_t> look_up_continuation(std::span<const int32_t> ids, int64_t count);

}  // namespace megalith::generate
