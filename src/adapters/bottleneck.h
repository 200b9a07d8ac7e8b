// SPDX-License-Identifier: Apache-2.0
// What an adapter of bottlenecks is (Houlsby et al. 2019), whoever made it: behind attention and
// MLP of every layer x becomes x + silu(x d^T + b_d) e^T + b_e, before the residual sum and before
// a norm that stands between. Its size is that of its tensors. The values are elsewhere.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace megalith::adapters {

struct Bottlenecks {
  std::string name;  // under which the tensors go
};

/// The tensors d, b_d, e and b_e of the bottleneck behind a product, which the model's own folder
/// calls `product` ("model.layers.0.mlp.down_proj.weight"): as AdapterHub's `adapters` has them for
/// Llama, Mistral and GPT-2, "model.layers.0.output_adapters.adapters.NAME.adapter_down.0.weight".
std::array<std::string, 4> bottleneck_tensors(std::string_view product, bool of_attention,
                                              const std::string& name);

}  // namespace megalith::adapters
