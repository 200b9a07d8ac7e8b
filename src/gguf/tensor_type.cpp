// SPDX-License-Identifier: Apache-2.0
#include "gguf/tensor_type.h"

#include <algorithm>

#include "base/check.h"

namespace megalith::gguf {
namespace {

constexpr BlockLayout other(uint32_t number, std::string_view name, int64_t elements,
                            int64_t bytes) {
  return {static_cast<TensorType>(number), name, elements, bytes};
}

// Sources: ggml.h, ggml-common.h and the Python package gguf 0.19.
constexpr BlockLayout kLayouts[] = {
    {TensorType::f32, "F32", 1, 4},
    {TensorType::f16, "F16", 1, 2},
    {TensorType::q4_0, "Q4_0", 32, 18},
    {TensorType::q4_1, "Q4_1", 32, 20},
    {TensorType::q5_0, "Q5_0", 32, 22},
    {TensorType::q5_1, "Q5_1", 32, 24},
    {TensorType::q8_0, "Q8_0", 32, 34},
    other(9, "Q8_1", 32, 40),
    {TensorType::q2_k, "Q2_K", 256, 84},
    {TensorType::q3_k, "Q3_K", 256, 110},
    {TensorType::q4_k, "Q4_K", 256, 144},
    {TensorType::q5_k, "Q5_K", 256, 176},
    {TensorType::q6_k, "Q6_K", 256, 210},
    other(15, "Q8_K", 256, 292),
    other(16, "IQ2_XXS", 256, 66),
    other(17, "IQ2_XS", 256, 74),
    other(18, "IQ3_XXS", 256, 98),
    other(19, "IQ1_S", 256, 50),
    other(20, "IQ4_NL", 32, 18),
    other(21, "IQ3_S", 256, 110),
    other(22, "IQ2_S", 256, 82),
    other(23, "IQ4_XS", 256, 136),
    other(24, "I8", 1, 1),
    other(25, "I16", 1, 2),
    other(26, "I32", 1, 4),
    other(27, "I64", 1, 8),
    {TensorType::f64, "F64", 1, 8},
    other(29, "IQ1_M", 256, 56),
    {TensorType::bf16, "BF16", 1, 2},
    other(34, "TQ1_0", 256, 54),
    other(35, "TQ2_0", 256, 66),
    other(39, "MXFP4", 32, 17),
    other(40, "NVFP4", 64, 36),
    other(41, "Q1_0", 128, 18),
};

}  // namespace

const BlockLayout* find_block_layout(TensorType type) {
  const auto* const found = std::ranges::find(kLayouts, type, &BlockLayout::type);
  return found == std::end(kLayouts) ? nullptr : found;
}

const BlockLayout& block_layout(TensorType type) {
  const BlockLayout* layout = find_block_layout(type);
  MEGA_CHECK(layout != nullptr, "{} is no type of a tensor", static_cast<uint32_t>(type));
  return *layout;
}

}  // namespace megalith::gguf
