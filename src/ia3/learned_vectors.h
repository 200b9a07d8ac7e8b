// SPDX-License-Identifier: Apache-2.0
// Learned vectors beside products (IA3, Liu et al. 2022), in training:
//   of outputs, a product cut by rows:      z = round(x W^T + b), y = round(z * l)    l [O]
//   of inputs, a product cut by columns:    y = round(x * l) W^T + b                  l [I]
// and backward, with dx' the gradient of x * l:
//   dz = round(dy * l)      dl += sum over tokens of dy z
//   dx = round(dx' * l)     dl += sum over tokens of dx' x
// Sums are f32 chains of fused multiply-adds in increasing token, so no micro-batch changes a bit.
// z is computed again in backward: it costs the product once more, and keeps nothing beside what
// the layers keep. Outputs of products cut by columns, and inputs of those cut by rows, cannot
// train vectors: a sum over ranks would stand between the vector and its gradient.
//
// A vector is cut over tensor ranks as the weight is, so every rank has the whole gradient of its
// part. All numbers of the vectors are f32, whatever the weights are.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "layers/product_factors.h"

namespace megalith::ia3 {

/// Of one product of ours.
struct MultipliedProduct {
  bool of_inputs = false;
  /// By output whether its module has a vector; where not, the vector's element stays 1. Empty:
  /// all. Of inputs it is always empty.
  std::vector<bool> outputs = {};
};
/// Which products have vectors, by weight.
using MultipliedProducts = std::map<std::string, MultipliedProduct, std::less<>>;

/// "layers.0.mlp.down.ia3_l" of "layers.0.mlp.down.weight".
std::string vector_beside(std::string_view weight);

/// For Partition::factors. `dtype`: of the vectors, that of the masters. Weights are frozen.
layers::MakeFactors vectors_of(std::shared_ptr<const MultipliedProducts> products, DType dtype);

}  // namespace megalith::ia3
