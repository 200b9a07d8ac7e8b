// SPDX-License-Identifier: Apache-2.0
#include "evaluate/answer_writer.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "generate/batch_generator.h"

namespace megalith::evaluate {
namespace {

constexpr int64_t kWritingTokens = 512, kMostSequences = 32;

/// Without what follows the first stop text.
std::string cut_at(std::string text, const std::vector<std::string>& stops) {
  size_t end = text.size();
  for (const std::string& stop : stops)
    if (!stop.empty()) end = std::min(end, text.find(stop));
  text.resize(std::min(end, text.size()));
  return text;
}

generate::BatchGenerator::Options room_for(const models::ModelSpec& spec, int64_t positions,
                                           int64_t requests) {
  // Keys and values of at most a gigabyte, as wide as the model at most.
  constexpr int64_t kBytes = int64_t{1} << 30, kWidest = 2 * sizeof(float);
  const int64_t one = positions * kWidest * spec.hidden * spec.num_layers();
  const int64_t sequences = std::min(
      std::clamp<int64_t>(kBytes / std::max<int64_t>(one, 1), 1, kMostSequences), requests);
  std::vector<int64_t> blocks = generate::BlockStore::needed(
      inference::kv_groups(spec), {.positions = positions, .common = 0}, kWritingTokens);
  for (int64_t& count : blocks) count *= sequences + 1;  // one's worth of kept beginnings
  return {.limits = {.sequences = sequences, .tokens = kWritingTokens, .waiting = requests},
          .blocks = std::move(blocks)};
}

}  // namespace

std::vector<std::string> write_texts(inference::InferenceEngine& engine, const ModelText& model,
                                     const tasks::Generation& generation,
                                     std::span<const std::vector<int32_t>> contexts,
                                     const OnDocuments& on_documents) {
  inference::require_one_stack(engine.spec(), "writing answers");
  std::vector<std::string> stops = generation.until;
  for (const int32_t end : model.ends)
    stops.push_back(model.tokenizer->decode(std::array{end}, true));
  int64_t positions = 1, done = 0;
  const int64_t before = engine.model().virtual_tokens();
  for (const auto& ids : contexts)
    positions = std::max(positions, std::min(before + std::ssize(ids) + generation.max_tokens,
                                             engine.spec().context));
  generate::BatchGenerator generator(engine, model.tokenizer,
                                     room_for(engine.spec(), positions, std::ssize(contexts)));
  std::vector<std::string> texts(contexts.size());
  for (size_t i = 0; i < contexts.size(); ++i) {
    generate::Request request{.prompt = contexts[i]};
    request.options.max_new_tokens = generation.max_tokens;
    request.options.sampling.temperature = 0;
    request.options.stop = stops;
    request.options.end_ids = model.ends;
    request.on_end = [&, i](generate::Generated result) {
      texts[i] = cut_at(model.tokenizer->decode(result.ids), stops);
      if (on_documents) on_documents(++done);
    };
    MEGA_CHECK(generator.submit(std::move(request)), "the queue has no room");
  }
  while (generator.step()) {
  }
  return texts;
}

}  // namespace megalith::evaluate
