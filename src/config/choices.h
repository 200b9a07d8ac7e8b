// SPDX-License-Identifier: Apache-2.0
// Choices of a recipe that the rooms which obey them take as they are, with the names that recipes
// and messages give them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "config/field.h"

namespace megalith::config {

/// Of the learning rate (optim/schedule.h).
enum class Schedule : uint8_t { constant, linear, cosine, inverse_sqrt, wsd, hours };
/// Of activations (layers/block.h).
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
enum class Compute : uint8_t { f32, bf16, fp8 };
/// How tensors are scaled whose products are in 8 bits (precision/scaling.h), in which codes, and
/// which magnitude of the history `delayed` takes.
enum class Fp8Recipe : uint8_t { delayed, current, block, mx };
enum class Fp8Format : uint8_t { by_recipe, hybrid, e4m3 };
enum class Fp8Amax : uint8_t { max, most_recent };
/// Which products fall back to 16 bits (precision/guard.h).
enum class Fp8Fallback : uint8_t { layer, all };

template <>
struct EnumNames<Compute> {
  static constexpr std::array<std::string_view, 3> names = {"f32", "bf16", "fp8"};
};
template <>
struct EnumNames<Fp8Fallback> {
  static constexpr std::array<std::string_view, 2> names = {"layer", "all"};
};
template <>
struct EnumNames<Fp8Recipe> {
  static constexpr std::array<std::string_view, 4> names = {"delayed", "current", "block", "mx"};
};
template <>
struct EnumNames<Fp8Format> {
  static constexpr std::array<std::string_view, 3> names = {"by_recipe", "hybrid", "e4m3"};
};
template <>
struct EnumNames<Fp8Amax> {
  static constexpr std::array<std::string_view, 2> names = {"max", "most_recent"};
};
template <>
struct EnumNames<Schedule> {
  static constexpr std::array<std::string_view, 6> names = {"constant",     "linear", "cosine",
                                                            "inverse_sqrt", "wsd",    "hours"};
};
template <>
struct EnumNames<Recompute> {
  static constexpr std::array<std::string_view, 3> names = {"none", "selective", "full"};
};
template <>
struct EnumNames<PipelineSchedule> {
  static constexpr std::array<std::string_view, 3> names = {"1f1b", "gpipe", "interleaved"};
};
template <>
struct EnumNames<Objective> {
  static constexpr std::array<std::string_view, 3> names = {"causal", "masked", "spans"};
};
template <>
struct EnumNames<SentencePairs> {
  static constexpr std::array<std::string_view, 3> names = {"none", "next", "order"};
};
template <>
struct EnumNames<Sequences> {
  static constexpr std::array<std::string_view, 2> names = {"tokens", "documents"};
};

}  // namespace megalith::config
