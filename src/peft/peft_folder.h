// SPDX-License-Identifier: Apache-2.0
// What a run has tuned, as PEFT saves it: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <filesystem>

#include "checkpoint/reader.h"
#include "peft/ia3_modules.h"
#include "peft/lora_modules.h"

namespace megalith::tune {

/// Replaces the folder's files, durably. The values are those of the checkpoint, in f32.
/// SystemError when the folder cannot be written.
void write_peft_folder(const std::filesystem::path& folder, const checkpoint::Reader& reader,
                       const LoraModules& lora, const config::TuneSection& tune);
void write_peft_folder(const std::filesystem::path& folder, const checkpoint::Reader& reader,
                       const Ia3Modules& ia3, const config::TuneSection& tune);
/// Rows of virtual tokens, of several tasks those of each in a folder of its name below `folder`;
/// what encoder made them is said beside them (tune.encoder_hidden is then what it was, not 0).
void write_prompt_folders(const std::filesystem::path& folder, const checkpoint::Reader& reader,
                          const models::ModelSpec& spec, const config::TuneSection& tune);

}  // namespace megalith::tune
