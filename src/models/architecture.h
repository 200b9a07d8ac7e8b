// SPDX-License-Identifier: Apache-2.0
// The shape of a decoder as data: one stack of blocks whose parts are choices. GPT-2 is layer norm,
// learned positions, GELU, biases. A choice without code behind it is refused when a model is
// built.
#pragma once

#include <cstdint>
#include <string>

namespace megalith::models {

enum class NormKind { layer_norm, rms_norm };
enum class PositionKind { learned, rotary };
enum class MlpKind { gelu_tanh, gelu_erf, swiglu };
enum class AttentionKind { streaming, materialised };

/// Vocabularies are padded to a multiple of this, a constant, so that no layout moves a bit; padded
/// rows are zero, take no part in the softmax and stay zero.
inline constexpr int64_t kVocabularyMultiple = 128;

struct Architecture {
  int64_t layers = 12;
  int64_t hidden = 768;
  int64_t heads = 12;
  int64_t kv_heads = 12;
  int64_t ffn = 3072;
  int64_t context = 1024;
  int64_t vocab = 50257;
  NormKind norm = NormKind::layer_norm;
  PositionKind position = PositionKind::learned;
  MlpKind mlp = MlpKind::gelu_tanh;
  AttentionKind attention = AttentionKind::streaming;
  bool bias = true;
  bool tied = true;
  double dropout = 0;
  double norm_eps = 1e-5;
  double init_std = 0.02;

  int64_t head_size() const { return hidden / heads; }
  int64_t padded_vocab() const {
    return (vocab + kVocabularyMultiple - 1) / kVocabularyMultiple * kVocabularyMultiple;
  }
  /// Parameters of the whole model, padding not counted, tied ones once.
  int64_t num_parameters() const;

  /// Throws UserError with everything that is impossible, absurd or has no code yet; before
  /// anything is allocated. `where` names the source ("recipe.yaml", "config.json").
  void check(const std::string& where) const;
};

/// Default canonical split of tensor dimensions: gcd(8, heads, kv_heads).
int default_tensor_shards(const Architecture& architecture);

}  // namespace megalith::models
