// SPDX-License-Identifier: Apache-2.0
// What one layer of a model is, as data: layers are built from it and know no family of models by
// name. The defaults are GPT-2's. Each field is listed once, in layer_spec.cpp: reading, writing,
// refusing what is unknown and comparing follow from that list.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/model_section.h"
#include "kernels/attention/relative_buckets.h"
#include "kernels/elementwise/activation.h"
#include "kernels/norm/layer_norm.h"
#include "kernels/reduction/pool_rows.h"

namespace megalith::layers {

using config::NormPlace;
using config::QkNorm;
using config::RopeScaling;
using kernels::Activation;
using kernels::NormKind;
using kernels::Pooling;

struct NormSpec {
  NormKind kind = NormKind::layer;
  double eps = 1e-5;
  double offset = 0;  // y = x^ (offset + weight); Gemma: 1
  bool bias = true;   // never with rms
  void visit(settings::FieldVisitor& v);
  friend bool operator==(const NormSpec&, const NormSpec&) = default;
};

/// Rotary positions (Su et al. 2021).
struct RopeSpec {
  int64_t dim = 0;  // leading elements of a head that turn; 0: no rotary positions
  double base = 10000;
  bool interleaved = false;  // pairs (2i, 2i + 1), GPT-J's; else (i, i + dim / 2)
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;
  int64_t original_context = 0;      // that the model was first trained for; 0: the model's context
  double low_frequency_factor = 1;   // llama3
  double high_frequency_factor = 4;  // llama3
  double beta_fast = 32;             // yarn
  double beta_slow = 1;              // yarn
  bool truncate = true;              // yarn: the ramp's ends are whole numbers
  double attention_factor = 0;  // of cosines and sines, yarn and longrope; 0: the formula's own
  std::vector<double> short_factors = {}, long_factors = {};  // longrope, dim / 2 each
  void visit(settings::FieldVisitor& v);
  friend bool operator==(const RopeSpec&, const RopeSpec&) = default;
};

inline constexpr int64_t kMostBuckets = 1 << 16, kLargestDistance = 1 << 28;
/// Biases of scores by the distance of key and query, in buckets (Raffel et al. 2020): one table
/// for all layers of a stack, a number for each bucket and head. Without `causal` keys on either
/// side have buckets of their own.
struct RelativeSpec {
  int64_t buckets = 32;
  int64_t max_distance = 128;  // from which on there is one bucket
  void visit(settings::FieldVisitor& v);
  friend bool operator==(const RelativeSpec&, const RelativeSpec&) = default;
};

struct AttentionSpec {
  int64_t heads = 12;
  int64_t kv_heads = 12;  // divides heads (Ainslie et al. 2023)
  int64_t head_dim = 64;
  bool qkv_bias = true;
  bool output_bias = true;
  QkNorm qk_norm = QkNorm::none;
  RopeSpec rope = {};
  std::optional<RelativeSpec> relative = {};
  /// Keys that a query sees, itself the last; without `causal` as many on the other side too.
  /// 0: all.
  int64_t window = 0;
  double softcap = 0;  // scores s become softcap tanh(s / softcap); 0: none
  double scale = 0;    // of scores; 0: 1 / sqrt(head_dim)
  bool causal = true;
  bool materialised = false;  // store probabilities instead of computing them again in backward
  int64_t query_width() const { return heads * head_dim; }
  int64_t kv_width() const { return 2 * kv_heads * head_dim; }
  /// Rows of the fused projection.
  int64_t qkv_width() const { return query_width() + kv_width(); }
  /// None: without `relative`.
  kernels::RelativeBuckets relative_buckets() const {
    if (!relative) return {};
    return {relative->buckets, relative->max_distance, !causal};
  }
  void visit(settings::FieldVisitor& v);
  friend bool operator==(const AttentionSpec&, const AttentionSpec&) = default;
};

struct MlpSpec {
  int64_t ffn = 3072;
  bool gated = false;  // act(gate) up (Shazeer 2020)
  Activation activation = Activation::gelu_tanh;
  bool bias = true;
  /// Rows of the first product.
  int64_t up_width() const { return gated ? 2 * ffn : ffn; }
  void visit(settings::FieldVisitor& v);
  friend bool operator==(const MlpSpec&, const MlpSpec&) = default;
};

struct LayerSpec {
  NormSpec norm;
  NormPlace norm_place = NormPlace::pre;
  bool attention_norm = true;  // pre only; false: attention reads the stream as it is
  bool parallel = false;       // y = x + attention(norm_1(x)) + mlp(norm_2(x)); pre only
  double residual_scale = 1;   // of what attention and MLP add to the stream
  AttentionSpec attention;
  /// Between attention and MLP, of another sequence's rows: neither causal, nor with positions, nor
  /// a window.
  std::optional<AttentionSpec> cross;
  MlpSpec mlp;
  /// Of both kinds of attention.
  void set_materialised(bool materialised) {
    attention.materialised = materialised;
    if (cross) cross->materialised = materialised;
  }
  void visit(settings::FieldVisitor& v);
  friend bool operator==(const LayerSpec&, const LayerSpec&) = default;
};

/// Where positions enter besides attention.
enum class PositionKind : uint8_t { none, learned, sinusoidal };

struct EmbeddingSpec {
  PositionKind position = PositionKind::learned;
  int64_t position_offset = 0;  // rows of the table before that of position 0; RoBERTa: 2
  int64_t token_types = 0;      // rows of a table of segments (Devlin et al. 2019); 0: no table
  double scale = 1;             // of token rows; Gemma: sqrt(hidden)
  std::optional<NormSpec> norm = {};  // of the sum of all rows
  /// Of all tables, where a product with a bias takes rows to the hidden width (Lan et al. 2020);
  /// 0: hidden, and no product.
  int64_t width = 0;
  void visit(settings::FieldVisitor& v);
  friend bool operator==(const EmbeddingSpec&, const EmbeddingSpec&) = default;
};

/// What a model's losses are; head_types.h has an entry for each. `none`: it gives rows alone.
enum class HeadKind : uint8_t {
  language_model,
  sequence_classification,
  sequence_regression,
  token_classification,
  none,
  pretraining,        // a language model, and a classifier of sentence pairs (NSP, SOP)
  question_answering  // extractive: start and end of the answer span in a sequence
};

/// What a head of sequences has between a pooled row and its outputs.
enum class HeadDense : uint8_t { none, linear, tanh };

/// norm(act(x W^T + b)) before the outputs (Devlin et al. 2019): in a language model of each row,
/// to the width of the tables; of sequences behind the pooling.
struct TransformSpec {
  bool bias = true;
  Activation activation = Activation::gelu_erf;
  NormSpec norm = {};
  void visit(settings::FieldVisitor& v);
  friend bool operator==(const TransformSpec&, const TransformSpec&) = default;
};

struct HeadSpec {
  HeadKind kind = HeadKind::language_model;
  bool norm = true;  // rows go through the model's final norm first
  std::optional<TransformSpec> transform = {};
  // Of a language model.
  bool tied = true;    // the projection is the token embedding (Press & Wolf 2017)
  bool bias = false;   // of logits
  double softcap = 0;  // of logits; 0: none
  double scale = 1;    // of logits, before the cap
  // Of sequences and classes.
  Pooling pooling = Pooling::last;       // which row stands for a sequence
  HeadDense dense = HeadDense::none;     // tanh: as in BERT's pooler (Devlin et al. 2019)
  int64_t outputs = 0;                   // classes, or numbers
  std::vector<std::string> labels = {};  // names of the outputs, or none
  void visit(settings::FieldVisitor& v);
  friend bool operator==(const HeadSpec&, const HeadSpec&) = default;
};

}  // namespace megalith::layers

namespace megalith::settings {

template <>
struct EnumNames<layers::NormKind> : EnumNames<config::Norm> {};
template <>
struct EnumNames<layers::PositionKind> {
  static constexpr std::array<std::string_view, 3> names = {"none", "learned", "sinusoidal"};
};
template <>
struct EnumNames<layers::HeadKind> {
  static constexpr std::array<std::string_view, 7> names = {"language_model",
                                                            "sequence_classification",
                                                            "sequence_regression",
                                                            "token_classification",
                                                            "none",
                                                            "pretraining",
                                                            "question_answering"};
};
template <>
struct EnumNames<layers::Pooling> {
  static constexpr std::array<std::string_view, 3> names = {"first", "last", "mean"};
};
template <>
struct EnumNames<layers::HeadDense> {
  static constexpr std::array<std::string_view, 3> names = {"none", "linear", "tanh"};
};
template <>
struct EnumNames<layers::Activation> {
  static constexpr auto names = config::names_behind<config::Activation>("none");
};

}  // namespace megalith::settings
