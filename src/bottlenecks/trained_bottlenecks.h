// SPDX-License-Identifier: Apache-2.0
// Bottleneck adapters (Houlsby et al. 2019), in training: behind each product that ends an
// attention or an MLP, its bias added, and before a norm of that, dropout and the residual sum. The
// arithmetic is that of kernels/matmul/bottleneck.h. What the product gave is computed again in
// backward, with its sum over tensor ranks: it costs the product once more, and keeps nothing
// beside what the layers keep. The product's bias does not train.
//
// All numbers are f32, whatever the weights are, and whole on every rank, which has the gradients
// of all tokens: nothing more travels.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "layers/product_factors.h"

namespace megalith::bottlenecks {

/// Of "layers.0.mlp.down.weight": "layers.0.mlp.down.adapter_down" [R, H], "..._down_bias" [R],
/// "..adapter_up" [H, R], "..._up_bias" [H], in this order.
std::array<std::string, 4> parameters_behind(std::string_view weight);

/// For Partition::factors: bottlenecks of this size behind all row products. They begin as nothing:
/// the second matrix is zero. `dtype`: that of the masters.
layers::MakeFactors bottlenecks_of(int64_t size, DType dtype);

}  // namespace megalith::bottlenecks
