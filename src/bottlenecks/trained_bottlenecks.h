// SPDX-License-Identifier: Apache-2.0
// Bottleneck adapters (Houlsby et al. 2019) in training: behind each product that ends an attention
// or an MLP and behind its bias, before any norm of that output, dropout and the residual sum. The
// arithmetic is that of kernels/matmul/bottleneck.h. Backward recomputes the product's output with
// its sum over tensor ranks: the product once more, and nothing saved beside what the layers save.
// The product's bias is frozen.
//
// Parameters are f32, whatever the weights are, and whole on every rank, which has the gradients of
// all tokens: no further communication.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "layers/product_factors.h"

namespace megalith::bottlenecks {

/// Of "layers.0.mlp.down.weight": "layers.0.mlp.down.adapter_down" [R, H], "..._down_bias" [R],
/// "..adapter_up" [H, R], "..._up_bias" [H], in this order.
std::array<std::string, 4> parameters_behind(std::string_view weight);

/// For Partition::factors: bottlenecks of this size behind all row products, with the second matrix
/// zero at the start, so that the model is unchanged. `dtype`: that of the masters.
layers::MakeFactors bottlenecks_of(int64_t size, DType dtype);

}  // namespace megalith::bottlenecks
