// SPDX-License-Identifier: Apache-2.0
// Virtual tokens as a table that trains (Lester et al. 2021): one parameter, "prompt.weight"
// [P, E], whole on every rank of the first stage, as the table of positions is. Its numbers are
// f32, whatever the weights are.
#pragma once

#include <string_view>

#include "layers/virtual_tokens.h"

namespace megalith::prompts {

inline constexpr std::string_view kTableName = "prompt.weight";

/// For Partition::virtual_tokens: `count` rows that begin as those of the token table do. `dtype`:
/// that of the masters.
layers::VirtualTokens table_of(int64_t count, DType dtype);

}  // namespace megalith::prompts
