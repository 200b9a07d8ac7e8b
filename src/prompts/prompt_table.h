// SPDX-License-Identifier: Apache-2.0
// Virtual tokens as a table, one parameter "prompt.weight" [P, E], whole on every rank of the first
// stage, as the table of positions is: one that trains (Lester et al. 2021), or one that follows
// from an encoder that does (Liu et al. 2021). Numbers are f32, whatever the weights are.
#pragma once

#include <string_view>

#include "layers/virtual_tokens.h"
#include "prompts/prompt_encoder.h"

namespace megalith::prompts {

inline constexpr std::string_view kTableName = "prompt.weight";

/// For Partition::virtual_tokens: `count` rows that begin as those of the token table do. `dtype`:
/// that of the masters.
layers::VirtualTokens table_of(int64_t count, DType dtype);
/// The same behind an encoder, the rows of all its tasks; of the kind `embedding`, which is the
/// table itself, the same.
layers::VirtualTokens table_of(int64_t count, const EncoderSpec& spec, DType dtype);
/// Numbers that train of `count` rows of this width behind an encoder.
int64_t trained_elements(int64_t count, int64_t width, const EncoderSpec& spec);

}  // namespace megalith::prompts
