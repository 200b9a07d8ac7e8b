// SPDX-License-Identifier: Apache-2.0
// Low-rank factors beside a product (Hu et al. 2022), in training:
//   h = drop(x) a^T              a [R, I]
//   y = round(y + h (s b))       b [P, O], packed (kernels/matmul/low_rank.h)
// and backward, with s b spread to [R, O]:
//   dh = dy (s b)^T     db += (s h)^T dy     da += dh^T drop(x)     dx = round(dx + drop(dh a))
// f32 chains in increasing index, those over what tensor ranks share cut into the canonical shards
// and their tree. h is made again in backward: it costs a product of few columns, and keeps nothing
// beside what the layers keep. All numbers of the factors are f32, whatever the weights are.
//
// Cut over tensor ranks as the weight is: of a column product b by columns, of a row product a by
// columns; the other factor is whole on every rank, and so are its gradients, from the same sums.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "layers/product_factors.h"

namespace megalith::low_rank {

/// Of one product of ours.
struct ProductRanks {
  /// By output, the elements of h that it is made of: those of its module; empty: it has none.
  std::vector<Range> by_output;
  int64_t rank = 0;  // R
};

/// Which products have factors, all scaled alike.
struct FactoredProducts {
  std::map<std::string, ProductRanks, std::less<>> products;  // by weight
  double scale = 1;
  double dropout = 0;           // of what the factors read, in training
  bool has_magnitudes = false;  // of outputs, too (magnitudes.h); needs dropout 0
};

/// Whether a name is that of a factor or of magnitudes.
bool is_factor(std::string_view parameter);
/// "layers.0.mlp.down.lora_a" of "layers.0.mlp.down.weight", and the others.
std::string first_factor(std::string_view weight);
std::string second_factor(std::string_view weight);
std::string magnitudes_of(std::string_view weight);

/// For Partition::factors. `dtype`: of the factors, that of the masters. `products` lives as long
/// as the layers.
layers::MakeFactors factors_of(std::shared_ptr<const FactoredProducts> products, DType dtype);

}  // namespace megalith::low_rank
