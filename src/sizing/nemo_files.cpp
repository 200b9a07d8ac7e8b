// SPDX-License-Identifier: Apache-2.0
#include "sizing/nemo_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

namespace megalith::sizing {
namespace {

using Setting = std::optional<int64_t>;
constexpr int64_t kSteps = 50;  // of a run

bool has_two_stacks(const NemoSearch& search) {
  return search.model.family == NemoFamily::t5 || search.model.family == NemoFamily::mt5;
}

/// A float as Python writes it.
std::string python_float(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}
double rounded(double value, int digits) {
  return std::strtod(fmt::format("{:.{}f}", value, digits).c_str(), nullptr);
}

/// The three columns of recomputed layers. One that has no value in some rows holds floats in the
/// tool's table (pandas).
class RecomputedCells {
 public:
  RecomputedCells(const NemoSearch& search, std::span<const NemoCandidate> rows) : search_(search) {
    for (int column = 0; column < 3; ++column) {
      const auto is_given = [&](const NemoCandidate& c) { return of(c, column).has_value(); };
      has_floats_[column] =
          std::ranges::any_of(rows, is_given) && !std::ranges::all_of(rows, is_given);
    }
  }
  std::string cells(const NemoCandidate& c) const {
    std::string text;
    for (int column = 0; column < 3; ++column) {
      const Setting value = of(c, column);
      text += value ? fmt::format("{}{},", *value, has_floats_[column] ? ".0" : "") : ",";
    }
    return text;
  }

 private:
  Setting of(const NemoCandidate& c, int column) const {
    if (column == 1) return c.micro_batches;
    if (column == 2) return c.per_stage;
    // Of two stacks each recomputes half, in whole layers.
    return has_two_stacks(search_) && c.layers ? Setting(*c.layers / 2 * 2) : c.layers;
  }
  const NemoSearch& search_;
  bool has_floats_[3] = {};
};

constexpr std::string_view kColumns =
    "Model Name,Model Size,Seq Length,TP,PP,MBS,Act Ckpt Layers,Act Ckpt Micro Bathes,"
    "Act Ckpt Layers per Pipeline,Num Layers,Hidden Size,FFN Hidden Size,GBS,Nodes,GPUs per Node";

/// The columns that both tables have.
std::string configuration(const NemoSearch& s, const NemoCandidate& c,
                          const RecomputedCells& recomputed) {
  const bool two = has_two_stacks(s);
  return fmt::format("{},{},{},{},{},{},{}{},{},{},{},{},{}", name_in_files(s.model.family),
                     s.model.size, s.model.sequence, c.tensor, c.pipeline, c.micro_batch,
                     recomputed.cells(c), (two ? 2 : 1) * s.shape.layers, s.shape.hidden,
                     two ? fmt::format("{}", s.shape.ffn) : "", s.model.global_batch, s.nodes,
                     s.gpus_per_node);
}

std::string or_null(const Setting& setting) {
  return setting ? fmt::format("{}", *setting) : "null";
}

std::string recomputed_yaml(const NemoCandidate& c, const std::string& indent, Setting layers) {
  return fmt::format(
      "{0}activations_checkpoint_granularity: {1}\n"
      "{0}activations_checkpoint_method: {2}\n"
      "{0}activations_checkpoint_num_layers: {3}\n",
      indent, c.layers ? "full" : "null", c.layers ? "block" : "null", or_null(layers));
}

std::string stack_yaml(const NemoSearch& s, const NemoCandidate& c, std::string_view name) {
  return fmt::format(
             "  {}:\n    num_layers: {}\n    hidden_size: {}\n    ffn_hidden_size: {}\n"
             "    num_attention_heads: {}\n    kv_channels: {}\n",
             name, s.shape.layers, s.shape.hidden, s.shape.ffn, s.shape.heads, s.shape.head_dim) +
         recomputed_yaml(c, "    ", c.layers ? Setting(*c.layers / 2) : std::nullopt);
}

}  // namespace

std::string nodes_name(const NemoSearch& search) { return fmt::format("{}nodes", search.nodes); }

std::string size_and_nodes(const NemoSearch& search) {
  return fmt::format("{}b_{}", search.model.size, nodes_name(search));
}

std::string run_name(const NemoSearch& search, const NemoCandidate& candidate) {
  return fmt::format("{}_{}_{}", name_in_files(search.model.family), size_and_nodes(search),
                     file_name(candidate));
}

std::string summary_csv(const NemoSearch& s, std::span<const NemoResult> results) {
  std::vector<NemoResult> rows;
  std::vector<NemoCandidate> candidates;
  for (const NemoResult& result : results) {
    rows.push_back({result.candidate, rounded(result.seconds, 4)});
    candidates.push_back(result.candidate);
  }
  std::ranges::stable_sort(rows, {}, &NemoResult::seconds);
  const RecomputedCells recomputed(s, candidates);
  const double flops = nemo_step_flops(s.shape, s.model.global_batch, s.vocab, s.model.sequence,
                                       s.target, s.model.family);
  std::string text = fmt::format(
      "{},Time per Step,Samples per Second,Model TFLOPS / GPU,Model TFLOPS Aggregate,Config Name\n",
      kColumns);
  for (const NemoResult& row : rows) {
    const double rate = flops / row.seconds / 1e12;
    // The tool makes the name of what its column says: the layers of two stacks of equal depth.
    NemoCandidate named = row.candidate;
    if (has_two_stacks(s) && named.layers) *named.layers = *named.layers / 2 * 2;
    const auto batch = static_cast<double>(s.model.global_batch);
    const auto gpus = static_cast<double>(s.nodes * s.gpus_per_node);
    text += fmt::format("{},{},{},{},{},{}\n", configuration(s, row.candidate, recomputed),
                        python_float(row.seconds), python_float(rounded(batch / row.seconds, 2)),
                        python_float(rounded(rate / gpus, 2)), python_float(rounded(rate, 2)),
                        table_name(named));
  }
  return text;
}

std::string failed_csv(const NemoSearch& s, std::span<const NemoCandidate> failed) {
  const RecomputedCells recomputed(s, failed);
  std::string text = fmt::format("{},Error Message\n", kColumns);
  for (const NemoCandidate& c : failed)
    text += configuration(s, c, recomputed) + ",CUDA out of memory\n";
  return text;
}

std::string config_yaml(const NemoSearch& s, const NemoCandidate& c) {
  const NemoModel& m = s.model;
  std::string text = fmt::format(
      "run:\n  name: {}\n"
      "trainer:\n  num_nodes: {}\n  devices: {}\n  precision: bf16\n  max_steps: {}\n"
      "  val_check_interval: {}\n"
      "model:\n  micro_batch_size: {}\n  global_batch_size: {}\n  tensor_model_parallel_size: {}\n"
      "  pipeline_model_parallel_size: {}\n",
      run_name(s, c), s.nodes, s.gpus_per_node, kSteps, kSteps, c.micro_batch, m.global_batch,
      c.tensor, c.pipeline);
  if (has_two_stacks(s)) {
    return text + fmt::format("  seq_length: {}\n", m.sequence) + stack_yaml(s, c, "encoder") +
           stack_yaml(s, c, "decoder") +
           fmt::format("  data:\n    seq_length: {}\n    seq_length_dec: {}\n", m.sequence,
                       s.target);
  }
  const bool interleaved = c.pipeline > 2;
  text += fmt::format(
      "  virtual_pipeline_model_parallel_size: {}\n  encoder_seq_length: {}\n"
      "  max_position_embeddings: {}\n  num_layers: {}\n  hidden_size: {}\n"
      "  num_attention_heads: {}\n",
      or_null(interleaved ? Setting(c.chunks) : std::nullopt), m.sequence, m.sequence,
      s.shape.layers, s.shape.hidden, s.shape.heads);
  if (s.shape.ffn > 0) text += fmt::format("  ffn_hidden_size: {}\n", s.shape.ffn);
  text += recomputed_yaml(c, "  ", c.layers);
  return text + fmt::format(
                    "  num_micro_batches_with_partial_activation_checkpoints: {}\n"
                    "  activations_checkpoint_layers_per_pipeline: {}\n  sequence_parallel: {}\n"
                    "  data:\n    seq_length: {}\n",
                    or_null(c.micro_batches), or_null(c.per_stage), m.size > 13, m.sequence);
}

}  // namespace megalith::sizing
