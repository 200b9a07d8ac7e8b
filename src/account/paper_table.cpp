// SPDX-License-Identifier: Apache-2.0
#include "account/paper_table.h"

#include <algorithm>
#include <array>

#include "account/chunk_trace.h"
#include "account/plan.h"
#include "base/integer.h"
#include "comm/backends.h"
#include "engine/engine.h"
#include "families/families.h"

namespace megalith::account {

std::span<const PaperModel> paper_models() {
  static const std::array<PaperModel, 4> models{{
      {"22B", 64, 6144, 48, 8, 1, 1, 4, 4, 45.56, 59.25, 9.56, 66.8, 49.4, 16.2, 7.6},
      {"175B", 96, 12288, 96, 8, 8, 3, 64, 1, 45.56, 66.84, 12.35, 62.0, 56.5, 18.5, 8.7},
      {"530B", 128, 20480, 105, 8, 35, 3, 280, 1, 31.64, 114.02, 23.08, 58.3, 62.0, 20.3, 9.4},
      {"1T", 160, 25600, 128, 8, 64, 1, 512, 1, 32.96, 131.25, 26.56, 58.3, 62.0, 20.3, 9.4},
  }};
  return models;
}

engine::Settings paper_settings(const PaperModel& m, bool sequence, layers::Recompute recompute) {
  engine::Settings s;
  s.model = models::gpt2(
      {.layers = m.layers, .hidden = m.hidden, .heads = m.heads, .context = 2048, .vocab = 51200});
  s.model.for_each_layer([](layers::LayerSpec& layer) { layer.attention.materialised = true; });
  s.model.dropout = 0.1;
  s.layout = {.tensor = m.tensor, .pipeline = m.pipeline, .sequence = sequence, .chunks = m.chunks};
  s.split = {8, 1};
  s.pipeline_schedule = m.chunks > 1 ? parallel::ScheduleKind::interleaved
                                     : parallel::ScheduleKind::one_forward_one_backward;
  s.recompute = {recompute, 0};
  s.weights = s.activations = DType::bf16;
  s.micro_batch = m.micro_batch;
  s.batch.full = m.global_batch;
  check(s, m.name);
  return s;
}

StoredByPaper stored_by_paper(const engine::Settings& s) {
  const models::ModelSpec& model = s.model;
  const int64_t tokens = model.context * s.micro_batch, tensor = s.layout.tensor;
  const int64_t own = exact_div(tokens, s.sequence_parallel() ? tensor : 1) * model.hidden;
  const int64_t scores =
      exact_div(model.layers.front().attention.heads, tensor) * model.context * tokens;
  const int64_t of_element = bytes_of(s.activations);
  StoredByPaper stored{};
  if (s.recompute.mode != layers::Recompute::full) stored.layer = 2 * own;
  if (s.recompute.mode == layers::Recompute::none) stored.layer += scores * (1 + of_element);
  stored.embedding = own;
  stored.head =
      own * of_element + tokens * exact_div(model.padded_vocab(s.split.tensor_shards), tensor) * 4;
  return stored;
}

namespace {

/// Bytes of weights, gradients and optimizer of the blocks of one stage, with the ends given.
int64_t state_bytes(const engine::Settings& s, const device::Target& target, int stage,
                    bool has_embedding, bool has_head) {
  const account::MemoryByClass memory =
      account::trace(target, [&](device::Device& device) {
        const int rank = parallel::rank_of(s.layout, {.pipeline = stage});
        const auto world = comm::make_traced_communicator(device, rank, s.layout.num_ranks());
        const parallel::Mesh mesh(*world, s.layout);
        parameters::ParameterSet set(s.declaration_rule());
        std::vector<std::unique_ptr<models::Decoder>> chunks;
        for (int chunk = 0; chunk < s.layout.chunks; ++chunk) {
          models::Stage model_chunk = engine::chunk_at(s, stage, chunk);
          model_chunk.has_embedding = has_embedding && model_chunk.has_embedding;
          model_chunk.has_head = has_head && model_chunk.has_head;
          chunks.push_back(std::make_unique<models::Decoder>(
              s.model, set, model_chunk, engine::partition_of(s, mesh.at().tensor)));
        }
        set.allocate(device, {.master = s.masters, .compute = s.weights});
        const optim::AdamW optimizer(set, device, s.adamw);
      }).memory;
  return memory.of(device::MemoryClass::weights) + memory.of(device::MemoryClass::gradients) +
         memory.of(device::MemoryClass::optimizer);
}

std::vector<parallel::Action> first_stage_of(const engine::Settings& s) {
  return parallel::make_schedule(s.pipeline_schedule, s.layout.pipeline,
                                 narrow<int>(s.batch.full / s.micro_batch), s.layout.chunks)[0];
}

/// Activations of layers kept on the first stage at its peak.
int64_t layer_activations(const PaperModel& model, const device::Target& target, bool sequence,
                          layers::Recompute recompute) {
  const engine::Settings s = paper_settings(model, sequence, recompute);
  const int64_t stored = stored_by_paper(s).layer;
  std::vector<int64_t> kept;
  for (int chunk = 0; chunk < s.layout.chunks; ++chunk) {
    const models::Stage model_chunk = engine::chunk_at(s, 0, chunk);
    kept.push_back(
        trace_chunk(s, target, {model_chunk.begin, model_chunk.end, false, false}).kept_bytes +
        stored * (model_chunk.end - model_chunk.begin));
  }
  return peak_kept(first_stage_of(s), kept);
}

}  // namespace

int64_t peak_kept(std::span<const parallel::Action> actions, std::span<const int64_t> kept) {
  int64_t now = 0, peak = 0;
  for (const parallel::Action& action : actions) {
    const int64_t bytes = kept[static_cast<size_t>(action.chunk)];
    if (action.kind == parallel::ActionKind::forward) peak = std::max(peak, now += bytes);
    if (action.kind == parallel::ActionKind::backward) now -= bytes;
  }
  return peak;
}

PaperRow paper_row(const PaperModel& model, const device::Target& target) {
  using layers::Recompute;
  PaperRow row;
  row.model = &model;
  row.none = layer_activations(model, target, false, Recompute::none);
  row.sequence = layer_activations(model, target, true, Recompute::none);
  row.selective = layer_activations(model, target, false, Recompute::selective);
  row.reduced = layer_activations(model, target, true, Recompute::selective);
  row.full = layer_activations(model, target, false, Recompute::full);
  const engine::Settings s = paper_settings(model, true, Recompute::selective);
  const int last = s.layout.pipeline - 1;
  row.state = state_bytes(s, target, 0, false, false);
  row.embedding_state = state_bytes(s, target, 0, true, false) - row.state;
  row.head_state =
      state_bytes(s, target, last, true, true) - state_bytes(s, target, last, true, false);
  std::vector<int64_t> mask(static_cast<size_t>(s.layout.chunks));
  mask[0] = stored_by_paper(s).embedding;
  row.embedding_activations = peak_kept(first_stage_of(s), mask);
  // A micro-batch's backward follows its loss: there is one at a time.
  row.head_activations =
      trace_chunk(s, target, {0, 0, false, true}).peak_bytes + stored_by_paper(s).head;
  return row;
}

}  // namespace megalith::account
