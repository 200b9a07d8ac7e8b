// SPDX-License-Identifier: Apache-2.0
// The memory table of "Reducing Activation Recomputation in Large Transformer Models" (Korthikanti
// et al. 2022, arXiv 2205.05198, table 3 and figures 1 and 7), found again by tracing this
// program's model code: the four models, their layouts, 16-bit weights and activations with f32
// masters, materialised attention. What the paper stores and this program makes again is added as
// the paper counts it. The paper counts layers alone; embedding and head come in columns of their
// own.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "device/target.h"
#include "engine/settings.h"

namespace megalith::account {

/// A model and layout of the paper's table 3, and what the paper gives for the rank that holds
/// most: bytes in GiB, shares in percent of the activations without sequence parallelism and
/// recomputation.
struct PaperModel {
  std::string name;
  int64_t heads, hidden, layers;
  int tensor, pipeline, chunks;
  int64_t global_batch, micro_batch;
  double state_gib, activations_gib, reduced_gib;  // reduced: sequence parallel and selective
  double sequence_percent, selective_percent, reduced_percent, full_percent;
};
std::span<const PaperModel> paper_models();

/// The settings of a row.
engine::Settings paper_settings(const PaperModel& model, bool sequence,
                                layers::Recompute recompute);

/// Bytes of one micro-batch on one rank that the paper stores and this program makes again.
struct StoredByPaper {
  int64_t layer;      // masks of three dropouts, a byte for each element, and dropped probabilities
  int64_t embedding;  // the mask of its dropout
  int64_t head;       // the projection's input and f32 logits, which go in chunks here
};
StoredByPaper stored_by_paper(const engine::Settings& settings);

/// Bytes on the first stage, those of the head on the last.
struct PaperRow {
  const PaperModel* model = nullptr;
  int64_t state = 0;  // layers: weights, gradients, masters, moments
  // Layers: activations kept between forward and backward at the peak of the schedule.
  int64_t none = 0, sequence = 0, selective = 0, reduced = 0, full = 0;
  int64_t embedding_state = 0;        // what the embedding adds to the first stage's state
  int64_t head_state = 0;             // what the head adds to the last stage's
  int64_t embedding_activations = 0;  // kept on the first stage, sequence parallel
  int64_t head_activations = 0;       // of one micro-batch on the last stage, sequence parallel
};
PaperRow paper_row(const PaperModel& model, const device::Target& target);

/// The most bytes kept at any moment of one stage's list, when forward of (micro-batch, chunk) adds
/// `kept` of the chunk and its backward takes them away.
int64_t peak_kept(std::span<const parallel::Action> actions, std::span<const int64_t> kept);

}  // namespace megalith::account
