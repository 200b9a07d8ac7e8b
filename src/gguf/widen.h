// SPDX-License-Identifier: Apache-2.0
// Elements of tensors between the formats of the file and f32. Widening is llama.cpp's arithmetic,
// each product and sum rounded once to f32, so all readers of a file agree to the bit.
#pragma once

#include <cstddef>
#include <span>

#include "gguf/tensor_type.h"

namespace megalith::gguf {

/// The types that are read: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to Q6_K.
bool can_widen(TensorType type);

/// Whole blocks to their values; sizes must fit each other.
void widen(TensorType type, std::span<const std::byte> blocks, std::span<float> values);

/// The types that are written: F32, F16, BF16, Q8_0, Q4_0, Q4_1.
bool can_narrow(TensorType type);

/// Rounds to nearest (tensor/dtype.h, narrow_blocks.h). False, and `blocks` are
/// unspecified, where a finite value becomes infinite, or a block format meets one that is not
/// finite.
[[nodiscard]] bool narrow(TensorType type, std::span<const float> values,
                          std::span<std::byte> blocks);

}  // namespace megalith::gguf
