// SPDX-License-Identifier: Apache-2.0
// What a run has tuned, as PEFT saves it: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <filesystem>

#include "checkpoint/reader.h"
#include "peft/ia3_modules.h"
#include "peft/lora_modules.h"

namespace megalith::tune {

/// Writes the folder's files, durably. The values are those of the checkpoint, in f32; of a
/// classifier the head is among them, and the model's config.json beside them. IntegrityError
/// naming the tensor that the checkpoint lacks; SystemError when the folder cannot be written.
void write_peft_folder(const std::filesystem::path& folder, const checkpoint::Reader& reader,
                       const LoraModules& lora, const config::TuneSection& tune);
void write_peft_folder(const std::filesystem::path& folder, const checkpoint::Reader& reader,
                       const Ia3Modules& ia3, const config::TuneSection& tune);
/// Rows of virtual tokens, of several tasks those of each in a folder of its name below `folder`;
/// the configuration also describes the encoder that made them (tune.encoder_hidden is then its
/// size, not 0).
void write_prompt_folders(const std::filesystem::path& folder, const checkpoint::Reader& reader,
                          const models::ModelSpec& spec, const config::TuneSection& tune);

}  // namespace megalith::tune
