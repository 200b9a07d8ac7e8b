// SPDX-License-Identifier: Apache-2.0
// The network in a recipe, and the choices that recipes and spec/layer_spec.h have in common.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "settings/field.h"

namespace megalith::config {

using settings::FieldVisitor;
using settings::format_as;
using settings::name_of;

enum class ModelKind { gpt };
enum class Attention { streaming, materialised };
enum class Norm { layer, rms };
/// Where the norms of a sublayer f (attention or MLP) stand; x is the residual stream:
///   pre      x + f(norm(x))               GPT-2, Llama
///   post     norm(x + f(x))               BERT
///   both     x + norm'(f(norm(x)))        Gemma 2
///   output   x + norm(f(x))               OLMo 2
enum class NormPlace : uint8_t { pre, post, both, output };
enum class Mlp { plain, gated };
enum class Activation { gelu_tanh, gelu_erf, gelu_quick, silu, relu };
enum class PositionKind { learned, rope, none, sinusoidal, relative };
/// Norm of queries and keys before positions: none, of each head, of all heads of a token at once.
enum class QkNorm : uint8_t { none, head, whole };
/// How rotary positions reach beyond the length they were trained for (spec/rotary_frequencies.h
/// has the formulas).
enum class RopeScaling : uint8_t { none, linear, dynamic, yarn, llama3, longrope };

}  // namespace megalith::config

namespace megalith::settings {

template <>
struct EnumNames<config::ModelKind> {
  static constexpr std::array<std::string_view, 1> names = {"gpt"};
};
template <>
struct EnumNames<config::Attention> {
  static constexpr std::array<std::string_view, 2> names = {"streaming", "materialised"};
};
template <>
struct EnumNames<config::Norm> {
  static constexpr std::array<std::string_view, 2> names = {"layer", "rms"};
};
template <>
struct EnumNames<config::NormPlace> {
  static constexpr std::array<std::string_view, 4> names = {"pre", "post", "both", "output"};
};
template <>
struct EnumNames<config::Mlp> {
  static constexpr std::array<std::string_view, 2> names = {"plain", "gated"};
};
template <>
struct EnumNames<config::Activation> {
  static constexpr std::array<std::string_view, 5> names = {"gelu_tanh", "gelu_erf", "gelu_quick",
                                                            "silu", "relu"};
};
template <>
struct EnumNames<config::PositionKind> {
  static constexpr std::array<std::string_view, 5> names = {"learned", "rope", "none", "sinusoidal",
                                                            "relative"};
};
template <>
struct EnumNames<config::QkNorm> {
  static constexpr std::array<std::string_view, 3> names = {"none", "head", "whole"};
};
template <>
struct EnumNames<config::RopeScaling> {
  static constexpr std::array<std::string_view, 6> names = {"none", "linear", "dynamic",
                                                            "yarn", "llama3", "longrope"};
};

}  // namespace megalith::settings

namespace megalith::config {

/// The names of E behind another first one.
template <class E>
constexpr auto names_behind(std::string_view first) {
  std::array<std::string_view, settings::EnumNames<E>::names.size() + 1> names = {first};
  for (size_t i = 1; i < names.size(); ++i) names[i] = settings::EnumNames<E>::names[i - 1];
  return names;
}

/// A choice that may be left to the model's family: a value of E, or `family` before the first.
template <class E>
class FamilyOr {
 public:
  constexpr FamilyOr() = default;
  constexpr FamilyOr(E value) : index_(static_cast<size_t>(value) + 1) {}  // NOLINT
  constexpr explicit FamilyOr(size_t index) : index_(index) {}
  constexpr explicit operator size_t() const { return index_; }
  constexpr bool is_familys() const { return index_ == 0; }
  constexpr E value_or(E familys) const {
    return is_familys() ? familys : static_cast<E>(index_ - 1);
  }
  friend constexpr bool operator==(const FamilyOr&, const FamilyOr&) = default;

 private:
  size_t index_ = 0;
};
}  // namespace megalith::config

namespace megalith::settings {

template <class E>
struct EnumNames<config::FamilyOr<E>> {
  static constexpr auto names = config::names_behind<E>("family");
};

}  // namespace megalith::settings

namespace megalith::config {

struct RopeSection {
  double base = 0;  // 0: the family's
  int64_t dim = 0;  // 0: head_dim
  FamilyOr<RopeScaling> scaling;
  double factor = 1;
  int64_t original_context = 0;  // 0: model.context
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  double beta_fast = 32;
  double beta_slow = 1;
  double attention_factor = 0;  // 0: the formula's
  std::vector<double> short_factors, long_factors;
  void visit(FieldVisitor& v);
};

struct ModelSection {
  ModelKind kind = ModelKind::gpt;
  std::string family = "gpt2";
  int64_t layers = 12;
  int64_t decoder_layers = 0;  // of an encoder-decoder; 0: model.layers
  int64_t decoder_start = 0;
  int64_t hidden = 768;
  int64_t heads = 12;
  int64_t kv_heads = 0;  // 0: heads
  int64_t head_dim = 0;  // 0: hidden / heads
  int64_t ffn = 0;       // 0: the family's
  int64_t context = 1024;
  int64_t vocab = 0;  // 0: the tokenizer's
  double dropout = 0.0;
  Attention attention = Attention::streaming;
  std::optional<bool> tied;  // null: as the family has it, like the ones below
  FamilyOr<Norm> norm;
  FamilyOr<NormPlace> norm_place;
  std::optional<bool> parallel_block;
  FamilyOr<Mlp> mlp;
  FamilyOr<Activation> activation;
  std::optional<bool> bias;
  FamilyOr<PositionKind> position;
  RopeSection rope;
  int64_t window = -1;  // -1: the family's; 0: all
  FamilyOr<QkNorm> qk_norm;
  double norm_eps = 1e-5;
  double init_std = 0.02;
  /// Of both stacks of an encoder-decoder, once its family has filled in decoder_layers.
  int64_t all_layers() const { return layers + decoder_layers; }
  void visit(FieldVisitor& v);
};

}  // namespace megalith::config
