// SPDX-License-Identifier: Apache-2.0
// config.json of a Hugging Face model folder, both ways, for every family (families.h). Read: the
// spellings of transformers 4 and 5, missing keys take the class default, unknown keys are ignored
// as the ecosystem does; but a value that would change the arithmetic and has no code here is
// refused by its key, never ignored. Sizes are bounded before anything is allocated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "families/quantization_config.h"
#include "spec/model_spec.h"
#include "tensor/dtype.h"

namespace megalith::models {

struct HuggingFaceConfig {
  ModelSpec model;
  /// Ids that end a text (eos_token_id, a number or a list), those inside the vocabulary only.
  std::vector<int32_t> end_ids;
  /// The id that begins a text (bos_token_id), if the vocabulary has it.
  std::optional<int32_t> begin_id;
  /// The id that fills up texts (pad_token_id), if the vocabulary has it.
  std::optional<int32_t> pad_id;
  /// The head of `model` is tied unless the file has a projection of its own.
  bool ties_unless_stored = false;
  /// Of weights that are stored in FP8.
  std::optional<Fp8Config> fp8 = {};
};

/// Largest config.json that is read.
inline constexpr int64_t kMaxConfigBytes = 16 << 20;

/// UserError naming `where` and the key.
HuggingFaceConfig parse_hugging_face_config(std::string_view text, const std::string& where);

/// The eos_token_id of a generation_config.json; nothing when it names none. UserError as above.
std::optional<std::vector<int32_t>> parse_end_ids(std::string_view text, int64_t vocab,
                                                  const std::string& where);

/// config.json for a model that check_expressible lets pass, stored as `dtype`. Without `begin_id`
/// the first end begins a text, as in GPT-2; without `pad_id` an encoder-decoder has the id that
/// its decoder begins with, others none. `ignored`: weights of products are in FP8 with a scale for
/// each row, but for those of these modules.
std::string hugging_face_config(const ModelSpec& model, DType dtype,
                                const std::vector<int32_t>& end_ids,
                                std::optional<int32_t> begin_id = {},
                                std::optional<int32_t> pad_id = {},
                                const std::optional<std::vector<std::string>>& ignored = {});

/// UserError naming what a config.json of the model's family cannot say of it: it would read back
/// as another model.
void check_expressible(const ModelSpec& model);

}  // namespace megalith::models
