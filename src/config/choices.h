// SPDX-License-Identifier: Apache-2.0
// Choices of a recipe that the rooms which obey them take as they are, with the names that recipes
// and messages give them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "settings/field.h"

namespace megalith::config {

using settings::FieldVisitor;
using settings::format_as;
using settings::name_of;

/// Of the learning rate (optim/schedule.h).
enum class Schedule : uint8_t { constant, linear, cosine, inverse_sqrt, wsd, hours };
/// Of activations (models/block.h).
enum class Recompute : uint8_t { none, selective, full };
/// Of micro-batches over pipeline stages (parallel/schedule.h).
enum class PipelineSchedule : uint8_t { one_forward_one_backward, gpipe, interleaved };
/// What is predicted (objectives/): the next token, tokens that are hidden, or spans of them.
enum class Objective : uint8_t { causal, masked, spans };
/// What a training sample holds (data/): consecutive tokens of the corpus, or whole documents.
enum class Sequences : uint8_t { tokens, documents };
/// What is asked about two stretches of text beside the objective masked (objectives/).
enum class SentencePairs : uint8_t { none, next, order };
/// Storage of activations, and the products of layers.
enum class Compute : uint8_t { f32, bf16, f16, fp8 };
/// How tensors are scaled whose products are in 8 bits (precision/scaling.h), in which codes, and
/// which magnitude of the history `delayed` takes.
enum class Fp8Recipe : uint8_t { delayed, current, block, mx, unscaled };
enum class Fp8Format : uint8_t { by_recipe, hybrid, e4m3 };
enum class Fp8Amax : uint8_t { max, most_recent };
/// Which products fall back to 16 bits (precision/guard.h).
enum class Fp8Fallback : uint8_t { layer, all };
/// Of sums: one chain whatever the layout, or whatever is fastest here.
enum class Numerics { exact, fast };
/// Of parameters as they are kept.
enum class Precision { f32, bf16, f16 };
enum class Offload { none, activations };
/// What becomes of a step whose gradients are not finite, and of one whose loss leaps.
enum class NotFinite { stop, skip };
enum class Spike { ignore, warn, rewind };
/// What is best of validations: the lowest loss, or the highest of a score that they give.
enum class BestBy {
  loss,
  accuracy,
  f1,
  precision,
  recall,
  matthews_correlation,
  pearson,
  spearmanr,
  exact_match
};

}  // namespace megalith::config

namespace megalith::settings {

template <>
struct EnumNames<config::Numerics> {
  static constexpr std::array<std::string_view, 2> names = {"exact", "fast"};
};
template <>
struct EnumNames<config::Precision> {
  static constexpr std::array<std::string_view, 3> names = {"f32", "bf16", "f16"};
};
template <>
struct EnumNames<config::Offload> {
  static constexpr std::array<std::string_view, 2> names = {"none", "activations"};
};
template <>
struct EnumNames<config::NotFinite> {
  static constexpr std::array<std::string_view, 2> names = {"stop", "skip"};
};
template <>
struct EnumNames<config::Spike> {
  static constexpr std::array<std::string_view, 3> names = {"ignore", "warn", "rewind"};
};
template <>
struct EnumNames<config::BestBy> {
  static constexpr std::array<std::string_view, 9> names = {
      "loss",    "accuracy",  "f1",         "precision", "recall", "matthews_correlation",
      "pearson", "spearmanr", "exact_match"};
};
template <>
struct EnumNames<config::Compute> {
  static constexpr std::array<std::string_view, 4> names = {"f32", "bf16", "f16", "fp8"};
};
template <>
struct EnumNames<config::Fp8Fallback> {
  static constexpr std::array<std::string_view, 2> names = {"layer", "all"};
};
template <>
struct EnumNames<config::Fp8Recipe> {
  static constexpr std::array<std::string_view, 5> names = {"delayed", "current", "block", "mx",
                                                            "unscaled"};
};
template <>
struct EnumNames<config::Fp8Format> {
  static constexpr std::array<std::string_view, 3> names = {"by_recipe", "hybrid", "e4m3"};
};
template <>
struct EnumNames<config::Fp8Amax> {
  static constexpr std::array<std::string_view, 2> names = {"max", "most_recent"};
};
template <>
struct EnumNames<config::Schedule> {
  static constexpr std::array<std::string_view, 6> names = {"constant",     "linear", "cosine",
                                                            "inverse_sqrt", "wsd",    "hours"};
};
template <>
struct EnumNames<config::Recompute> {
  static constexpr std::array<std::string_view, 3> names = {"none", "selective", "full"};
};
template <>
struct EnumNames<config::PipelineSchedule> {
  static constexpr std::array<std::string_view, 3> names = {"1f1b", "gpipe", "interleaved"};
};
template <>
struct EnumNames<config::Objective> {
  static constexpr std::array<std::string_view, 3> names = {"causal", "masked", "spans"};
};
template <>
struct EnumNames<config::SentencePairs> {
  static constexpr std::array<std::string_view, 3> names = {"none", "next", "order"};
};
template <>
struct EnumNames<config::Sequences> {
  static constexpr std::array<std::string_view, 2> names = {"tokens", "documents"};
};

}  // namespace megalith::settings
