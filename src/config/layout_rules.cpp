// SPDX-License-Identifier: Apache-2.0
// How batches and the model are cut over ranks and canonical shards. Advice is tried by the same
// rules.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/integer.h"
#include "base/subtree.h"
#include "config/layouts.h"
#include "config/rules.h"

namespace megalith::config {
namespace {

int64_t sequence_length_of(const Recipe& r) {
  return r.train.sequence_length > 0 ? r.train.sequence_length : r.model.context;
}

void tensor_shard_rules(const Recipe& r, Faults& faults) {
  const ModelSection& m = r.model;
  const int64_t shards = r.parallel.tensor_shards;
  const auto fault = [&](const char* name, const std::string& what) {
    add(faults, "parallel.tensor_shards", {name, "model.heads", "model.kv_heads", "model.hidden"},
        fmt::format("{} must {}", shards, what));
  };
  for (const auto& [name, value] : {std::pair{"model.heads", m.heads}, {"model.ffn", m.ffn}})
    if (!divides(shards, value)) fault(name, fmt::format("divide {} {}", name, value));
  if (shards < 1 || m.kv_heads < 1 || m.heads < 1) return;
  const int64_t head_dim = m.head_dim > 0 ? m.head_dim : m.hidden / m.heads;
  if (!shares_of_heads(shards, m.kv_heads)) {
    fault("model.kv_heads", fmt::format("divide model.kv_heads {} or be a multiple", m.kv_heads));
  } else if (const auto rows = checked_multiply(2 * m.kv_heads, head_dim);
             rows && !divides(shards, *rows)) {
    fault("model.head_dim", fmt::format("divide the {} rows of keys and values", *rows));
  }
}

/// Whether `given`, a recipe that was not resolved, keeps the rules of a canonical split with this
/// change: no other value is advised.
bool keeps(Recipe given, void (*rules)(const Recipe&, Faults&), int64_t ParallelSection::*key,
           int64_t value) {
  given.parallel.*key = value;
  resolve(given);
  Faults faults;
  rules(given, faults);
  return faults.empty();
}

void split_rules(const Recipe& r, const Recipe& given, Faults& faults) {
  const ParallelSection& p = r.parallel;
  tensor_shard_rules(r, faults);
  const auto fits = [&](const char* axis, int64_t ranks, const char* key, int64_t canonical,
                        bool may_be_canonical, std::vector<std::string> involved) {
    if (blocks_are_subtrees(canonical, ranks)) return;
    int64_t fewer = std::min(ranks, canonical);
    while (!blocks_are_subtrees(canonical, fewer)) --fewer;
    const std::string other =
        may_be_canonical ? fmt::format("parallel.{}: {} (which changes the result) or ", key, ranks)
                         : "";
    add(faults, fmt::format("parallel.{}", axis), std::move(involved),
        fmt::format("{} ranks cannot share parallel.{} {} in whole subtrees; set {}parallel.{}: {}",
                    ranks, key, canonical, other, axis, fewer));
  };
  fits("tensor", p.tensor, "tensor_shards", p.tensor_shards,
       keeps(given, tensor_shard_rules, &ParallelSection::tensor_shards, p.tensor),
       {"parallel.tensor_shards", "model.heads", "model.kv_heads"});
  if (p.tensor >= 1 && r.model.kv_heads >= 1 && !shares_of_heads(p.tensor, r.model.kv_heads) &&
      blocks_are_subtrees(p.tensor_shards, p.tensor))
    add(faults, "parallel.tensor", {"parallel.tensor_shards", "model.heads", "model.kv_heads"},
        fmt::format("{} ranks hold neither whole key/value heads of {} nor a part of one each; set "
                    "parallel.tensor: {}",
                    p.tensor, r.model.kv_heads, std::gcd(p.tensor, r.model.kv_heads)));
  fits("data", p.data, "data_shards", p.data_shards,
       keeps(given, batch_rules, &ParallelSection::data_shards, p.data), {"parallel.data_shards"});
}

void pipeline_rules(const Recipe& r, Faults& faults) {
  const ParallelSection& p = r.parallel;
  const auto stages = checked_multiply(p.pipeline, p.chunks);
  if (!stages || *stages > r.model.all_layers())
    add(faults, "parallel.pipeline", {"parallel.chunks", "model.layers"},
        fmt::format("model.layers {} must be at least parallel.pipeline {} x parallel.chunks {}",
                    r.model.all_layers(), p.pipeline, p.chunks));
  const bool interleaved = p.schedule == PipelineSchedule::interleaved;
  if (interleaved != (p.chunks > 1))
    add(faults, "parallel.chunks", {"parallel.schedule"},
        interleaved ? "must be at least 2 with parallel.schedule: interleaved"
                    : fmt::format("{} needs parallel.schedule: interleaved", p.chunks));
  if (p.chunks > 1 && p.pipeline == 1)
    add(faults, "parallel.chunks", {"parallel.pipeline"},
        fmt::format("{} needs parallel.pipeline of at least 2", p.chunks));
}

/// Whether another layout mends what `split_rules` and `pipeline_rules` have found.
bool a_layout_fits(Recipe r) {
  const auto nearest = nearest_layouts(r, num_ranks(r), 1);
  if (nearest.empty()) return false;
  r.parallel.tensor = nearest[0].tensor;
  r.parallel.pipeline = nearest[0].pipeline;
  r.parallel.data = nearest[0].data;
  Faults faults;
  split_rules(r, r, faults);
  pipeline_rules(r, faults);
  return faults.empty();
}

/// Outside of the layouts that other numbers of ranks could mend.
void sequence_rules(const Recipe& r, Faults& faults) {
  const ParallelSection& p = r.parallel;
  const int64_t length = sequence_length_of(r);
  const char* const key = length == r.model.context ? "model.context" : "train.sequence_length";
  if (p.sequence && p.tensor > 1 && !divides(p.tensor_shards, length))
    add(faults, "parallel.sequence",
        {"parallel.tensor_shards", "train.sequence_length", "model.context", "model.heads",
         "model.kv_heads"},
        fmt::format("needs parallel.tensor_shards {} to divide {} {}; set one of them so, or "
                    "parallel.sequence: false",
                    p.tensor_shards, key, length));
}

}  // namespace

void batch_rules(const Recipe& r, Faults& faults) {
  const TrainSection& t = r.train;
  const auto sequences = checked_multiply(t.micro_batch, r.parallel.data_shards);
  if (!checked_multiply(t.global_batch, sequence_length_of(r)))
    add(faults, "train.global_batch", {"train.sequence_length", "model.context"},
        "too many tokens per step");
  if (t.sequence_length > r.model.context && !r.tunes())
    add(faults, "train.sequence_length", {"model.context"},
        fmt::format("{} is more than model.context {}", t.sequence_length, r.model.context));
  const auto divided = [&](const char* name, int64_t value) {
    if (!sequences || !divides(*sequences, value))
      add(faults, name, {"train.micro_batch", "parallel.data_shards"},
          fmt::format("{} {} must be a multiple of train.micro_batch {} x parallel.data_shards {}",
                      name, value, t.micro_batch, r.parallel.data_shards));
  };
  divided("train.global_batch", t.global_batch);
  if (t.ramp_start == 0) {
    if (t.ramp_increment != 0 || t.ramp_samples != 0)
      add(faults, "train.ramp_start", {"train.ramp_increment", "train.ramp_samples"},
          "is 0 (no ramp-up); set it, or remove train.ramp_increment and train.ramp_samples");
    return;
  }
  if (t.ramp_increment == 0 || t.ramp_samples == 0) {
    add(faults, "train.ramp_start", {"train.ramp_increment", "train.ramp_samples"},
        "needs train.ramp_increment and train.ramp_samples of at least 1");
    return;
  }
  if (t.ramp_start > t.global_batch || !divides(t.ramp_increment, t.global_batch - t.ramp_start))
    add(faults, "train.ramp_increment", {"train.ramp_start", "train.global_batch"},
        fmt::format("steps of {} must lead from train.ramp_start {} to train.global_batch {}",
                    t.ramp_increment, t.ramp_start, t.global_batch));
  divided("train.ramp_start", t.ramp_start);
  divided("train.ramp_increment", t.ramp_increment);
}

void layout_rules(const Recipe& r, const Recipe& given, Faults& faults) {
  const size_t before = faults.size();
  split_rules(r, given, faults);
  pipeline_rules(r, faults);
  if (faults.size() > before && num_ranks(r) > 1 && a_layout_fits(r))
    add(faults, "parallel", {}, fmt::format("layouts that fit: {}", layouts_text(r, num_ranks(r))));
  sequence_rules(r, faults);
}

}  // namespace megalith::config
