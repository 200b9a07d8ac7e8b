// SPDX-License-Identifier: Apache-2.0
// An adapter_config.json, and what it says of modules: its lists, its expressions, its patterns.
#include <array>
#include <cmath>
#include <variant>

#include "adapters/peft_config.h"
#include "base/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  static const std::array<std::string, 6> kModules{"model.layers.0.self_attn.q_proj",
                                                   "transformer.h.11.attn.c_attn",
                                                   "layers.1.x",
                                                   "a",
                                                   "model.layers.7.mlp.gate_proj",
                                                   ""};
  const std::string_view input = fuzz::text_of(data, size);
  fuzz::accepts([&] {
    const adapters::PeftConfig first = adapters::parse_peft_config(input, "adapter_config.json");
    const adapters::PeftConfig second = adapters::parse_peft_config(input, "adapter_config.json");
    if (const auto* const ia3 = std::get_if<adapters::Ia3>(&first)) {
      const auto& again = std::get<adapters::Ia3>(second);
      for (const std::string& module : kModules)
        MEGA_CHECK(ia3->adapts(module) == again.adapts(module) &&
                   ia3->of_inputs(module) == again.of_inputs(module));
      return;
    }
    if (const auto* const prompt = std::get_if<adapters::VirtualPrompt>(&first)) {
      MEGA_CHECK(prompt->tokens >= 1 && prompt->tokens <= adapters::kMostVirtualTokens &&
                 prompt->tokens == std::get<adapters::VirtualPrompt>(second).tokens);
      return;
    }
    const auto& lora = std::get<adapters::Lora>(first);
    const auto& again = std::get<adapters::Lora>(second);
    for (const std::string& module : kModules) {
      const int64_t rank = lora.rank_of(module);
      MEGA_CHECK(rank >= 1 && rank <= adapters::kMostRank);
      MEGA_CHECK(std::isfinite(lora.scale_of(module)));
      MEGA_CHECK(lora.adapts(module) == again.adapts(module) && rank == again.rank_of(module));
    }
  });
  return 0;
}
