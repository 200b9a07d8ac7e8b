// SPDX-License-Identifier: Apache-2.0
#include "inference/inference_engine.h"

#include <algorithm>
#include <numeric>

#include "kernels/attention/kv_cache.h"

namespace megalith::inference {
namespace {

/// Prompts are read in chunks of this many tokens: bounds the memory, costs no bit (the cache's
/// arithmetic does not depend on it).
constexpr int64_t kPrefillChunk = 512;
/// Logits are worked out for so many tokens at a time: bounds the memory, costs no bit.
constexpr int64_t kLogitRows = 64;

/// Blocks of each group for one sequence.
std::vector<int64_t> counts_for(const models::ModelSpec& spec, int64_t positions, int64_t memory) {
  std::vector<int64_t> counts;
  for (const KvGroup& group : kv_groups(spec))
    counts.push_back(kernels::kv_cache_blocks(group.is_memory ? memory : positions));
  return counts;
}

}  // namespace

KvCache::KvCache(engine::ShardedModel& model, int64_t max_positions, int64_t memory)
    : blocks_(model, counts_for(model.spec(), max_positions, memory)),
      capacity_(max_positions),
      memory_(memory) {
  for (const int64_t count : blocks_.counts()) {
    std::vector<int32_t>& table = tables_.emplace_back(static_cast<size_t>(count));
    std::iota(table.begin(), table.end(), 0);
  }
}

/// Of the batch's targets.
std::vector<double> InferenceEngine::logprobs(const layers::Batch& batch) {
  layers::Context context = model_.inference_context();
  const device::Tensor x =
      context.workspace(context.activation, Shape{models::StreamRows(batch).all(), spec().hidden});
  model_.through_stages(x, "inference.activation", [&](const models::Decoder& model_chunk, size_t) {
    model_chunk.hidden(context, batch, x);
  });
  std::vector<double> logprobs;
  if (model_.mesh().is_last_stage()) {
    const device::Tensor loss_T = context.workspace(DType::f32, Shape{batch.num_tokens});
    model_.head().score(context, batch, x, loss_T);
    for (const double loss : model_.to_host(loss_T)) logprobs.push_back(-loss);
  }
  return from_last_stage(logprobs);
}

std::vector<double> InferenceEngine::score(std::span<const int32_t> ids) {
  check_scorable(spec(), ids, model_.virtual_tokens(), model_.tokens_in_text());
  if (ids.size() == 1) return {};
  const auto is_text = [&](int32_t id) { return id < spec().vocab; };
  std::vector<int32_t> read = virtual_ids();
  const auto before = std::ssize(read);
  read.insert(read.end(), ids.begin(), ids.end() - 1);
  TextSequences sequences = one_sequence(read);
  sequences.targets.resize(static_cast<size_t>(before));  // of which nobody asks
  for (const int32_t id : ids.subspan(1)) sequences.targets.push_back(is_text(id) ? id : 0);
  sequences.reach = {narrow<int32_t>(std::ssize(read) + 1)};
  const TextBatch text(model_.device(), std::move(sequences));
  std::vector<double> all = logprobs(text.batch());
  if (all.empty()) return all;
  all.erase(all.begin(), all.begin() + before);
  std::vector<double> of_text;
  bool has_begun = is_text(ids[0]);
  for (size_t i = 0; i < all.size(); ++i) {
    if (!is_text(ids[i + 1])) continue;
    if (has_begun) of_text.push_back(all[i]);
    has_begun = true;
  }
  return of_text;
}

std::vector<double> InferenceEngine::score_target(std::span<const int32_t> ids,
                                                  std::span<const int32_t> target) {
  check_target(spec(), ids, target, model_.virtual_tokens(), model_.tokens_in_text());
  if (target.empty()) return {};
  std::vector<int32_t> before = {narrow<int32_t>(spec().decoder_start)};
  before.insert(before.end(), target.begin(), target.end() - 1);
  TextSequences sequences = one_sequence(before);
  sequences.targets.assign(target.begin(), target.end());
  const TextBatch read(model_.device(), one_sequence(behind_virtual(ids)));
  const TextBatch written(model_.device(), std::move(sequences));
  layers::Batch batch = written.batch();
  batch.encoder = &read.batch();
  return logprobs(batch);
}

void InferenceEngine::read(const KvBlocks& blocks, std::span<const int32_t> ids,
                           const BlockTables& tables, const layers::Adapter* adapter) {
  const KeptRows kept(model_.device(), blocks.groups(), behind_virtual(ids, adapter), tables);
  const layers::Batch& batch = kept.batch();
  layers::Context context = model_.inference_context();
  if (adapter != nullptr) context.adapter = adapter;
  const device::Tensor x =
      context.workspace(context.activation, Shape{batch.num_tokens, spec().hidden});
  model_.through_stages(
      x, "inference.activation", [&](const models::Decoder& model_chunk, size_t chunk) {
        model_chunk.encode(context, batch, x, blocks.binding(chunk, kept.sequences()));
      });
}

KvCache InferenceEngine::make_cache(int64_t max_positions) {
  require_one_stack(spec(), "generating from an empty cache");
  return KvCache(model_, std::min(max_positions + model_.virtual_tokens(), spec().context));
}

InferenceEngine::Beginning InferenceEngine::begin(std::span<const int32_t> prompt,
                                                  int64_t new_tokens) {
  check_generates(spec());
  std::vector<int32_t> ids(prompt.begin(), prompt.end());
  const bool reads = spec().is_encoder_decoder();
  const int64_t context = spec().context, before = model_.virtual_tokens();
  if (reads) {
    check_ids(spec(), prompt, context - before);
    ids = {narrow<int32_t>(spec().decoder_start)};
  }
  const int64_t begun = std::ssize(ids) + (reads ? 0 : before);
  Beginning beginning{KvCache(model_, std::min(begun + std::min(new_tokens, context), context),
                              reads ? before + std::ssize(prompt) : 0),
                      std::move(ids)};
  if (reads) read(beginning.cache.blocks_, prompt, beginning.cache.tables_);
  return beginning;
}

/// Of the rows that want them, some at a time.
void InferenceEngine::see_logits(layers::Context& context, std::span<const SequenceRows> rows,
                                 ConstView x_TH, SeeLogits see) {
  std::vector<int64_t> tokens;
  int64_t end = 0;
  for (const SequenceRows& row : rows) {
    end += std::ssize(row.ids);
    for (int64_t n = row.num_logits; n > 0; --n) tokens.push_back(end - n);
  }
  if (tokens.empty()) return;
  const int64_t most = std::min(std::ssize(tokens), kLogitRows);
  const device::Tensor asked = context.workspace(x_TH.dtype(), Shape{most, x_TH.size(1)});
  const device::Tensor logits = context.workspace(
      DType::f32, Shape{most, spec().padded_vocab(model_.settings().split.tensor_shards)});
  std::vector<float> host(static_cast<size_t>(spec().vocab));
  device::Device& device = model_.device();
  for (int64_t begin = 0; begin < std::ssize(tokens); begin += most) {
    const int64_t count = std::min(most, std::ssize(tokens) - begin);
    for (int64_t i = 0; i < count; ++i)
      device.copy(asked.view.rows(i, 1), x_TH.rows(tokens[static_cast<size_t>(begin + i)], 1));
    model_.head().logits(context, asked.view.rows(0, count), logits.view.rows(0, count));
    for (int64_t i = 0; i < count; ++i) {
      const ConstView row = logits.view.rows(i, 1).columns(0, spec().vocab);
      if (!device.is_trace()) device.wait(device.copy_to_host(host.data(), row));
      see(host);
    }
  }
}

/// Of the rows whose next token is given.
std::vector<double> InferenceEngine::losses_of(layers::Context& context,
                                               std::span<const SequenceRows> rows, ConstView x_TH) {
  std::vector<int32_t> targets;
  for (const SequenceRows& row : rows)
    targets.insert(targets.end(), row.targets.begin(), row.targets.end());
  const int64_t count = std::ssize(targets);
  const device::Tensor asked = context.workspace(x_TH.dtype(), Shape{count, x_TH.size(1)});
  int64_t token = 0, to = 0;
  for (const SequenceRows& row : rows) {
    const int64_t here = std::ssize(row.targets);
    if (here > 0)
      context.device().copy(asked.view.rows(to, here), x_TH.rows(token + row.first_target, here));
    token += std::ssize(row.ids);
    to += here;
  }
  device::StagedCopies copies(context.device());
  layers::Batch batch;
  batch.num_tokens = count;
  batch.targets_T = copies.place<int32_t>(targets);
  const device::Tensor loss_T = context.workspace(DType::f32, Shape{count});
  model_.head().score(context, batch, asked, loss_T);
  return model_.to_host(loss_T);
}

std::vector<double> InferenceEngine::step(const KvBlocks& blocks,
                                          std::span<const SequenceRows> rows, SeeLogits see) {
  const CachedRows cached(model_.device(), blocks.groups(), rows);
  layers::Context context = model_.inference_context();
  const device::Tensor x =
      context.workspace(context.activation, Shape{cached.batch().num_tokens, spec().hidden});
  model_.through_stages(
      x, "inference.activation", [&](const models::Decoder& model_chunk, size_t chunk) {
        const layers::KvCacheBinding binding = blocks.binding(chunk, cached.sequences());
        layers::Batch batch = cached.batch();
        batch.cache = &binding;
        model_chunk.hidden(context, batch, x);
      });
  const bool is_last = model_.mesh().is_last_stage();
  if (is_last) see_logits(context, rows, x, see);
  const auto asks = [](const SequenceRows& row) { return !row.targets.empty(); };
  if (std::ranges::none_of(rows, asks)) return {};
  std::vector<double> logprobs;
  if (is_last) {
    for (const double loss : losses_of(context, rows, x)) logprobs.push_back(-loss);
  }
  return from_last_stage(logprobs);
}

InferenceEngine::StepResult InferenceEngine::step(const KvBlocks& blocks,
                                                  std::span<const SequenceRows> rows) {
  StepResult result;
  result.logprobs = step(blocks, rows, [&](std::span<const float> logits) {
    result.logits.insert(result.logits.end(), logits.begin(), logits.end());
  });
  return result;
}

std::vector<float> InferenceEngine::extend(KvCache& cache, std::span<const int32_t> ids) {
  std::vector<int32_t> read;
  if (cache.length() == 0 && !spec().is_encoder_decoder()) read = virtual_ids();
  check_ids(spec(), ids, cache.capacity() - cache.length() - std::ssize(read));
  read.insert(read.end(), ids.begin(), ids.end());
  ids = read;
  while (true) {
    const auto tokens = static_cast<size_t>(std::min(std::ssize(ids), kPrefillChunk));
    const bool is_last = tokens == ids.size();
    const SequenceRows rows{.ids = ids.first(tokens),
                            .past = cache.length_,
                            .reach = cache.capacity_,
                            .blocks = &cache.tables_,
                            .memory = cache.memory_,
                            .num_logits = is_last ? 1 : 0};
    std::vector<float> logits = step(cache.blocks_, std::span(&rows, 1)).logits;
    cache.length_ += static_cast<int64_t>(tokens);
    if (is_last) return logits;
    ids = ids.subspan(tokens);
  }
}

}  // namespace megalith::inference
