// SPDX-License-Identifier: Apache-2.0
#include "apps/sample_writer.h"

#include <algorithm>

#include "account/plan.h"
#include "engine/gather_weights.h"
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

engine::InferenceModel::Options options_of_model(const engine::Settings& settings) {
  return {settings.weights, settings.numerics, settings.split.tensor_shards};
}

generate::GenerateOptions generate_options(const config::Recipe& recipe) {
  generate::GenerateOptions options;
  options.max_new_tokens = recipe.train.sample_tokens;
  options.sampling = {0.8, 50, 0.95, static_cast<uint64_t>(recipe.run.seed)};
  return options;
}

}  // namespace

void check_samples(const config::Recipe& recipe, const std::optional<text::Tokenizer>& tokenizer,
                   const std::string& path) {
  if (recipe.train.sample_every == 0) return;
  if (!tokenizer || recipe.train.sample_prompts.empty())
    throw UserError("{}: train.sample_every needs data.tokenizer and train.sample_prompts", path);
  for (size_t i = 0; i < recipe.train.sample_prompts.size(); ++i) {
    const auto tokens =
        static_cast<int64_t>(prompt_ids(recipe.train.sample_prompts[i], *tokenizer).size());
    if (tokens == 0 || tokens > recipe.model.context) {
      throw UserError(
          "{}: train.sample_prompts[{}] is {} tokens long; from 1 to model.context ({}) can be "
          "continued",
          path, i, tokens, recipe.model.context);
    }
  }
}

train::Samples write_samples(engine::Engine& engine, int64_t step, const config::Recipe& recipe,
                             const text::Tokenizer& tokenizer) {
  comm::Communicator& world = engine.mesh().world();
  if (world.rank() != 0) {
    engine::gather_weights(engine, nullptr, nullptr);
    return {};
  }
  const auto device = device::make_cpu_device(engine.device().target());
  engine::InferenceModel model(engine.settings().model, *device,
                               options_of_model(engine.settings()));
  engine::gather_weights(engine, &model.parameters(), device.get());
  generate::GenerateOptions options = generate_options(recipe);
  if (const auto end = tokenizer.end_of_document()) options.end_ids = {*end};
  train::Samples samples;
  const auto at_work = [&](std::string_view) { world.sign_of_life(); };  // the other ranks wait
  for (const std::string& prompt : recipe.train.sample_prompts) {
    const std::vector<int32_t> ids = prompt_ids(prompt, tokenizer);
    samples.texts.push_back(
        {step, prompt, generate::generate(model, &tokenizer, ids, options, at_work).text});
  }
  samples.bytes = device->total().peak;
  return samples;
}

int64_t planned_sample_bytes(const config::Recipe& recipe, const engine::Settings& settings,
                             const text::Tokenizer* tokenizer, const device::Target& target) {
  if (recipe.train.sample_every == 0) return 0;
  const account::Plan plan = account::trace(target, [&](device::Device& device) {
    engine::InferenceModel model(settings.model, device, options_of_model(settings));
    if (settings.layout.tensor > 1 || settings.layout.pipeline > 1) {
      int64_t largest = 0;  // pieces of other ranks come in one at a time
      for (parameters::Parameter& parameter : model.parameters().all())
        largest = std::max(largest, parameter.compute().bytes());
      device.arena(device::MemoryClass::workspace).allocate(largest);
    }
    // Without an end of document each is as long as it may become.
    for (const std::string& prompt : recipe.train.sample_prompts)
      generate::generate(model, nullptr, prompt_ids(prompt, *tokenizer), generate_options(recipe));
  });
  return plan.memory.total;
}

}  // namespace megalith::apps
