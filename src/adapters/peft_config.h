// SPDX-License-Identifier: Apache-2.0
// adapter_config.json as PEFT writes it for LoRA (DoRA too), IA3 and virtual tokens, which are
// prompt tuning's and, once trained, p-tuning's; or, known by the key "config", as AdapterHub
// writes it for bottleneck adapters (bottleneck_config.h). What would change the arithmetic and has
// no code here is refused by name: other methods, biases, whole modules that were trained,
// starts that change the base's weights. Source: LoraConfig, IA3Config,
// PromptTuningConfig and PromptEncoderConfig of peft 0.21.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "adapters/bottleneck.h"
#include "adapters/ia3.h"
#include "adapters/lora.h"
#include "adapters/virtual_prompt.h"

namespace megalith::adapters {

inline constexpr int64_t kMostConfigBytes = 16 << 20;

using PeftConfig = std::variant<Lora, Ia3, VirtualPrompt, Bottlenecks>;
/// UserError that begins with `where` and names the key. `takes_heads`: modules_to_save is allowed
/// beside factors and vectors.
PeftConfig parse_peft_config(std::string_view text, const std::string& where,
                             bool takes_heads = false);

}  // namespace megalith::adapters
