// SPDX-License-Identifier: Apache-2.0
#include "generate/generator.h"

#include "generate/batch_generator.h"

namespace megalith::generate {
namespace {

/// Prompts are read in passes of this many tokens: bounds the memory, costs no bit.
constexpr int64_t kPassTokens = 512;

}  // namespace

Generated generate(inference::InferenceEngine& model, const text::Tokenizer* tokenizer,
                   Request request, inference::InferenceEngine* draft) {
  const models::ModelSpec& spec = model.spec();
  inference::check_generates(spec);
  const GenerateOptions& options = request.options;
  check(options);
  const int64_t before = model.model().virtual_tokens(request.adapter.adapter.get());
  inference::check_ids(spec, request.prompt, spec.context - before,
                       model.model().tokens_in_text(request.adapter.adapter.get()));
  const bool reads = spec.is_encoder_decoder();
  const int64_t tokens = std::ssize(request.prompt), begun = reads ? 1 : before + tokens;
  const int64_t positions =
      std::min(begun + std::min(options.max_new_tokens, spec.context), spec.context);
  const BlockStore::Size size{.positions = positions,
                              .memory = reads ? before + tokens : 0,
                              .lines = options.beams,
                              .common = begun};
  std::vector<int64_t> draft_blocks;
  if (draft != nullptr) draft_blocks = Draft::needed(draft->spec(), positions);
  BatchGenerator generator(
      model, tokenizer,
      {.limits = {.sequences = options.beams, .tokens = kPassTokens, .waiting = 1},
       .blocks = BlockStore::needed(inference::kv_groups(spec), size, kPassTokens),
       .keeps_prefixes = false,
       .draft = draft,
       .draft_blocks = draft_blocks});
  Generated result;
  request.on_end = [&](Generated end) { result = std::move(end); };
  generator.submit(std::move(request));
  while (generator.step()) {
  }
  return result;
}

Generated generate(inference::InferenceEngine& model, const text::Tokenizer* tokenizer,
                   std::span<const int32_t> prompt_ids, const GenerateOptions& options,
                   std::function<void(std::string_view piece)> on_text) {
  return generate(model, tokenizer,
                  Request{.prompt = {prompt_ids.begin(), prompt_ids.end()},
                          .options = options,
                          .on_text = std::move(on_text)});
}

}  // namespace megalith::generate
