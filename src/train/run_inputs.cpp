// SPDX-License-Identifier: Apache-2.0
#include "train/run_inputs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/integer.h"
#include "objectives/fill_in_middle.h"
#include "objectives/masked_source.h"
#include "objectives/pair_source.h"
#include "objectives/spans_source.h"

namespace megalith::train {
namespace {

/// The number of steps that consumes at least `samples`.
int64_t steps_for(const optim::BatchRamp& ramp, int64_t samples) {
  int64_t steps = 0, consumed = 0;
  while (consumed < samples) {
    const int64_t size = optim::batch_size(ramp, consumed);
    if (size == ramp.full) return steps + ceil_div(samples - consumed, size);
    consumed += size;
    ++steps;
  }
  return steps;
}

}  // namespace

RunLength run_length(const config::Recipe& r, const engine::Settings& s,
                     int64_t samples_per_epoch) {
  if (r.train.steps >= 0) return {r.train.steps, 0};
  if (r.train.tokens >= 0)
    return {steps_for(s.batch, ceil_div(r.train.tokens, s.sequence_length())), 0};
  if (r.train.epochs >= 0) {
    const double samples = r.train.epochs * static_cast<double>(samples_per_epoch);
    return {steps_for(s.batch, static_cast<int64_t>(std::ceil(samples))), 0};
  }
  return {std::numeric_limits<int64_t>::max(), r.train.hours * 3600};
}

void set_length(engine::Settings& s, const RunLength& length, int64_t decay_steps) {
  s.schedule.total_steps = length.steps;
  s.schedule.budget_seconds = length.budget_seconds;
  s.schedule.decay_steps = decay_steps;
  // wsd: a tenth of the run unless the recipe says otherwise (Hu et al. 2024).
  if (s.schedule.kind == optim::ScheduleKind::wsd && decay_steps == 0) {
    s.schedule.decay_steps = std::max<int64_t>(1, length.steps / 10);
  }
}

namespace {

std::vector<data::Corpus> corpora_of(const std::vector<config::Corpus>& list) {
  std::vector<data::Corpus> corpora;
  for (const config::Corpus& corpus : list) corpora.push_back({corpus.path, corpus.weight});
  return corpora;
}

data::BatchOptions batch_options_of(const config::Recipe& r, const text::Tokenizer* tokenizer) {
  const auto end_of_document = tokenizer != nullptr ? tokenizer->end_of_document() : std::nullopt;
  const bool needed =
      r.data.document_mask || r.data.reset_positions || !r.data.end_of_document_loss;
  if (needed && !end_of_document) {
    throw UserError(
        "recipe: data.document_mask, data.reset_positions and data.end_of_document_loss need "
        "data.tokenizer "
        "with an end-of-document token");
  }
  return {end_of_document, r.data.document_mask, r.data.reset_positions,
          r.data.end_of_document_loss};
}

data::SamplerOptions sampler_options(const config::Recipe& recipe, const engine::Settings& settings,
                                     data::Split split) {
  data::SamplerOptions options;
  options.sequence_length = settings.sequence_length();
  options.vocab_size = settings.model.vocab;
  options.seed = settings.seed;
  options.validation_fraction = recipe.data.validation_fraction;
  options.split = split;
  options.whole_documents = recipe.data.sequences == config::Sequences::documents;
  options.shuffle = split == data::Split::train;
  return options;
}

std::unique_ptr<data::BatchSource> spans_source(const config::Recipe& recipe,
                                                const std::vector<config::Corpus>& corpora,
                                                data::SamplerOptions sampler,
                                                const text::Tokenizer& tokenizer,
                                                uint64_t draw_seed) {
  const config::SpansSection& s = recipe.train.spans;
  const objectives::SpanCounts counts =
      objectives::span_counts({s.rate, s.mean_length}, sampler.sequence_length);
  sampler.sequence_length = counts.raw;
  objectives::SpanTokens tokens =
      objectives::span_tokens(tokenizer, {s.sentinel, s.start}, counts.spans);
  if (tokens.start != recipe.model.decoder_start) {
    throw UserError(
        "recipe: train.spans.start {:?} is token {}, and model.decoder_start {}; set it to {}",
        s.start, tokens.start, recipe.model.decoder_start, tokens.start);
  }
  return std::make_unique<objectives::SpansSource>(corpora_of(corpora), sampler, counts,
                                                   std::move(tokens), draw_seed);
}

/// `draw_seed`: of what the objective draws.
std::unique_ptr<data::BatchSource> source_of(const config::Recipe& recipe,
                                             const std::vector<config::Corpus>& corpora,
                                             const data::SamplerOptions& sampler,
                                             const text::Tokenizer* tokenizer, uint64_t draw_seed) {
  const data::BatchOptions batches = batch_options_of(recipe, tokenizer);
  const config::FimSection& f = recipe.train.fim;
  if (recipe.train.objective == config::Objective::causal && f.rate == 0)
    return std::make_unique<data::CorpusSource>(corpora_of(corpora), sampler, batches);
  if (tokenizer == nullptr)
    throw UserError("recipe: train.objective masked and spans and train.fim need data.tokenizer");
  if (recipe.train.objective == config::Objective::spans)
    return spans_source(recipe, corpora, sampler, *tokenizer, draw_seed);
  if (recipe.train.objective == config::Objective::causal) {
    const objectives::FillInMiddle middle(*tokenizer,
                                          {f.rate, f.spm_rate, {f.prefix, f.middle, f.suffix}});
    return std::make_unique<data::CorpusSource>(corpora_of(corpora), sampler, batches,
                                                objectives::rearranged(middle, draw_seed));
  }
  const config::MaskingSection& m = recipe.train.masking;
  const objectives::MaskableTokens maskable(
      *tokenizer, m.whole_words ? objectives::Unit::word : objectives::Unit::token);
  const objectives::MaskingOptions masking{m.rate, m.mask_share, m.random_share};
  if (recipe.train.sentence_pairs == config::SentencePairs::none)
    return std::make_unique<objectives::MaskedSource>(corpora_of(corpora), sampler, batches,
                                                      maskable, masking, draw_seed);
  const auto relation = recipe.train.sentence_pairs == config::SentencePairs::next
                            ? objectives::PairRelation::next
                            : objectives::PairRelation::order;
  return std::make_unique<objectives::PairSource>(
      corpora_of(corpora), sampler, maskable,
      objectives::PairSourceOptions{relation, objectives::pair_tokens(*tokenizer), masking,
                                    draw_seed});
}

}  // namespace

std::unique_ptr<data::BatchSource> training_source(const config::Recipe& recipe,
                                                   const engine::Settings& settings,
                                                   const text::Tokenizer* tokenizer) {
  return source_of(recipe, recipe.data.train, sampler_options(recipe, settings, data::Split::train),
                   tokenizer, settings.seed);
}

std::unique_ptr<data::BatchSource> validation_source(const config::Recipe& recipe,
                                                     const engine::Settings& settings,
                                                     const text::Tokenizer* tokenizer) {
  if (recipe.train.validate_every == 0) return nullptr;
  // The same question in every validation of every run: losses of runs can be compared.
  constexpr uint64_t kDrawSeed = 0;
  if (!recipe.data.validation.empty()) {
    data::SamplerOptions options = sampler_options(recipe, settings, data::Split::train);
    options.validation_fraction = 0;
    options.shuffle = false;
    return source_of(recipe, recipe.data.validation, options, tokenizer, kDrawSeed);
  }
  if (recipe.data.validation_fraction > 0) {
    return source_of(recipe, recipe.data.train,
                     sampler_options(recipe, settings, data::Split::validation), tokenizer,
                     kDrawSeed);
  }
  throw UserError(
      "recipe: train.validate_every is set but there is no data.validation and "
      "data.validation_fraction is 0");
}

}  // namespace megalith::train
