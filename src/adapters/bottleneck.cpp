// SPDX-License-Identifier: Apache-2.0
#include "adapters/bottleneck.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace megalith::adapters {
namespace {

/// "model.layers.0" of "model.layers.0.mlp.down_proj.weight".
std::string_view layer_of(std::string_view product) {
  size_t begin = 0;
  for (;;) {
    const size_t end = product.find('.', begin);
    MEGA_CHECK(end != std::string_view::npos, "{} is of no layer", product);
    const std::string_view part = product.substr(begin, end - begin);
    const bool is_number =
        !part.empty() && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    if (is_number) return product.substr(0, end);
    begin = end + 1;
  }
}

}  // namespace

std::array<std::string, 4> bottleneck_tensors(std::string_view product, bool of_attention,
                                              const std::string& name) {
  const auto tensor = [&](std::string_view end) {
    return fmt::format("{}.{}.adapters.{}.{}", layer_of(product),
                       of_attention ? "attention_adapters" : "output_adapters", name, end);
  };
  return {tensor("adapter_down.0.weight"), tensor("adapter_down.0.bias"),
          tensor("adapter_up.weight"), tensor("adapter_up.bias")};
}

}  // namespace megalith::adapters
