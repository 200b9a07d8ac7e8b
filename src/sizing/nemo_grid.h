// SPDX-License-Identifier: Apache-2.0
// The candidates that the auto-configurator of NeMo-Megatron-Launcher (4550dc9) runs for fifty
// steps each to find a layout: its tables of tensor ranks, pipeline stages and micro-batches by
// size, its rules for what divides what, its grid of recomputed layers, and the order of its runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sizing/nemo.h"

namespace megalith::sizing {

/// What is tried, before anything has to divide anything.
struct NemoGrid {
  std::vector<int64_t> tensor, pipeline, micro_batch;
  int64_t least = 1, most = 8;  // tensor ranks times stages
  friend bool operator==(const NemoGrid&, const NemoGrid&) = default;
};
/// `layers`: of an encoder-decoder, of each stack; `size`: 10^9 parameters. For sizes and lengths
/// beyond its tables the tool has start values, but for bert, which is a UserError, as is a
/// `memory_gb` that is neither 40 nor 80.
NemoGrid nemo_grid(double size, int64_t layers, int64_t sequence, int memory_gb, NemoFamily family);

/// What candidates are made of.
struct NemoModel {
  double size = 0;
  int64_t layers = 0, heads = 0, sequence = 0;
  int64_t global_batch = 0;  // samples
  int64_t gpus = 0;
  int memory_gb = 80;
  NemoFamily family = NemoFamily::gpt;
  /// Layers are recomputed in blocks (activations_checkpoint_method): how many is tried, too.
  bool block = false;
};

struct NemoCandidate {
  int64_t tensor = 1, pipeline = 1, micro_batch = 1;
  int64_t chunks = 1;  // of a stage: one layer each from three stages on, but for t5
  /// Of blocks: layers recomputed of each chunk (of t5, of both stacks); of how many micro-batches
  /// in flight only these, of the others all; how many fewer on each later stage.
  std::optional<int64_t> layers = {}, micro_batches = {}, per_stage = {};
  friend bool operator==(const NemoCandidate&, const NemoCandidate&) = default;
};
/// In the order in which the tool starts them, as far as its limit of runs goes.
std::vector<NemoCandidate> nemo_candidates(const NemoModel& model);

/// "gpt3": how the tool's files name a family.
std::string_view name_in_files(NemoFamily family);
/// "tp_8_pp_8_mbs_4_act_ckpt_None_num_mbs_act_None_act_per_pipe_None": the end of a candidate's
/// file name.
std::string file_name(const NemoCandidate& candidate);
/// "tp8_pp8_mbs4_act_None_num_mbs_act_None_act_per_pipe_None": in the tool's table of results.
std::string table_name(const NemoCandidate& candidate);

/// The operations of a step as the tool's table counts them: 2 a multiply-add, attention over all
/// pairs, backward twice forward. `target`: tokens of a sample that a t5 decoder learns.
double nemo_step_flops(const NemoShape& shape, int64_t global_batch, int64_t vocab,
                       int64_t sequence, int64_t target, NemoFamily family);

}  // namespace megalith::sizing
