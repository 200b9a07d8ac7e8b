// SPDX-License-Identifier: Apache-2.0
// adapter_config.json as PEFT writes it for LoRA and IA3. What would change the arithmetic and has
// no code here is refused by name: other methods, DoRA, biases, whole modules that were trained,
// starts that change the base's weights. Source: LoraConfig and IA3Config of peft 0.21.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "adapters/ia3.h"
#include "adapters/lora.h"

namespace megalith::adapters {

inline constexpr int64_t kMostConfigBytes = 16 << 20;

using PeftConfig = std::variant<Lora, Ia3>;
/// UserError that names the key; `where` begins it.
PeftConfig parse_peft_config(std::string_view text, const std::string& where);

}  // namespace megalith::adapters
