// SPDX-License-Identifier: Apache-2.0
#include "apps/sample_writer.h"

#include "generate/generator.h"

namespace megalith::apps {
namespace {

/// A prompt of the recipe as tokens; an empty one begins a document.
std::vector<int32_t> prompt_ids(const std::string& prompt, const text::Tokenizer& tokenizer) {
  std::vector<int32_t> ids = tokenizer.encode(prompt, true);
  const auto end = tokenizer.end_of_document();
  if (ids.empty() && end) ids = {*end};
  return ids;
}

generate::GenerateOptions generate_options(const config::Recipe& recipe) {
  generate::GenerateOptions options;
  options.max_new_tokens = recipe.train.sample_tokens;
  options.sampling = {.temperature = 0.8,
                      .top_k = 50,
                      .top_p = 0.95,
                      .seed = static_cast<uint64_t>(recipe.run.seed)};
  return options;
}

}  // namespace

void check_samples(const config::Recipe& recipe, const std::optional<text::Tokenizer>& tokenizer,
                   int64_t context, const std::string& path) {
  if (recipe.train.sample_every == 0) return;
  if (!tokenizer || recipe.train.sample_prompts.empty())
    throw UserError("{}: train.sample_every needs data.tokenizer and train.sample_prompts", path);
  for (size_t i = 0; i < recipe.train.sample_prompts.size(); ++i) {
    const auto tokens =
        static_cast<int64_t>(prompt_ids(recipe.train.sample_prompts[i], *tokenizer).size());
    if (tokens == 0 || tokens > context) {
      throw UserError(
          "{}: train.sample_prompts[{}] is {} tokens long; from 1 to {}, the context that it has, "
          "can be continued",
          path, i, tokens, context);
    }
  }
}

std::vector<int64_t> prompt_lengths(const config::Recipe& recipe,
                                    const text::Tokenizer* tokenizer) {
  std::vector<int64_t> lengths;
  if (recipe.train.sample_every == 0 || tokenizer == nullptr) return lengths;
  for (const std::string& prompt : recipe.train.sample_prompts)
    lengths.push_back(std::ssize(prompt_ids(prompt, *tokenizer)));
  return lengths;
}

std::vector<report::TextSample> write_samples(engine::Engine& engine, int64_t step,
                                              const config::Recipe& recipe,
                                              const text::Tokenizer& tokenizer) {
  if (engine.mesh().at().data != 0) return {};
  inference::InferenceEngine inference(engine.model());
  generate::GenerateOptions options = generate_options(recipe);
  if (const auto end = tokenizer.end_of_document()) options.end_ids = {*end};
  std::vector<report::TextSample> samples;
  for (const std::string& prompt : recipe.train.sample_prompts) {
    const std::vector<int32_t> ids = prompt_ids(prompt, tokenizer);
    samples.push_back({step, prompt, generate::generate(inference, &tokenizer, ids, options).text});
  }
  return samples;
}

}  // namespace megalith::apps
