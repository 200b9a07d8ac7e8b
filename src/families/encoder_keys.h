// SPDX-License-Identifier: Apache-2.0
// What encoders of BERT's kind have in common: keys of config.json, heads by class, and how their
// models are made.
#pragma once

#include "families/common_keys.h"

namespace megalith::models {

/// BERT's: norms behind the sums, biases everywhere, learned positions, `token_types` types, a
/// masked language model's head with its transform.
ModelSpec encoder_stack(std::string_view family, const Sizes& sizes, int64_t token_types,
                        const std::string& where);

/// Sizes, activation, norms, dropout, initial spread: what BERT's descendants spell alike.
/// `model`: as the family makes it.
Sizes read_encoder_sizes(const ConfigKeys& keys, const Sizes& usual);
struct EncoderDefaults {
  const char* activation = "gelu";
  double dropout = 0.1;
};
void read_encoder(const ConfigKeys& keys, ModelSpec& model, const EncoderDefaults& usual = {});
void write_encoder(const ModelSpec& model, nlohmann::ordered_json& json);

/// Which head a class has that `architectures` names; a class of the family that has no code here
/// is a UserError, no architectures mean the language model's. A head of sequences pools the first
/// row, through a dense layer with a tanh where `pooled` says so.
struct EncoderHeads {
  const Family& family;
  bool pooler_for_sequences = true;
  bool pooler_for_rows = true;
};
void read_head(const ConfigKeys& keys, const EncoderHeads& heads, ModelSpec& model);
void write_head(const ModelSpec& model, nlohmann::ordered_json& json);

}  // namespace megalith::models
