// SPDX-License-Identifier: Apache-2.0
// The description of bottleneck adapters (Houlsby et al. 2019). After the attention and the MLP of
// every layer, before the residual sum and before a norm if one follows, x becomes
//   x + silu(x d^T + b_d) e^T + b_e
// The width is that of the tensors. The values are elsewhere.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace megalith::adapters {

struct Bottlenecks {
  std::string name;  // part of the tensors' names
};

/// The names of the tensors d, b_d, e and b_e after a product that the model's own folder calls
/// `product` ("model.layers.0.mlp.down_proj.weight"), as AdapterHub's `adapters` has them for
/// Llama, Mistral and GPT-2: "model.layers.0.output_adapters.adapters.NAME.adapter_down.0.weight".
std::array<std::string, 4> bottleneck_tensors(std::string_view product, bool of_attention,
                                              const std::string& name);

}  // namespace megalith::adapters
