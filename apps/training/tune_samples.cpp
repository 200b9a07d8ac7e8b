// SPDX-License-Identifier: Apache-2.0
#include "apps/training/tune_samples.h"

#include <fmt/format.h>

#include <map>
#include <optional>

#include "base/file.h"
#include "base/integer.h"
#include "base/log.h"
#include "chat/conversation.h"
#include "layers/virtual_tokens.h"
#include "questions/question_windows.h"
#include "tune/labelled_file.h"
#include "tune/prompt_start.h"
#include "tune/tagged_file.h"

namespace megalith::apps {
namespace {

constexpr std::string_view kDefaultTemplate = "{input} {output}";
constexpr char kChatTemplateName[] = "chat_template.jinja";
constexpr int64_t kMostTemplateBytes = 16 << 20;

bool is_chat_template(const std::string& text) { return text.ends_with(".jinja"); }

/// The templates beside the model, or the recipe's.
chat::ChatFolder chats_of(const config::Recipe& recipe, const store::ModelSource& model) {
  std::map<std::string, std::string> files = model.texts();
  const std::string& given = recipe.tune.template_text;
  if (is_chat_template(given)) {
    files[kChatTemplateName] = read_file(given, kMostTemplateBytes);
    tune::refuse_virtual_mark(files[kChatTemplateName], given);
  }
  return chat::ChatFolder::parse(files, recipe.tune.model);
}

int32_t end_id_of(const store::ModelSource& model, const std::string& where) {
  if (!model.end_ids().empty()) return model.end_ids().front();
  const auto end = model.require_tokenizer().end_of_document();
  if (!end)
    throw UserError(
        "{}: neither its configuration nor its tokenizer names a token that ends a text", where);
  return *end;
}

/// The token that an encoder-decoder's decoder begins with; nothing of other models.
std::optional<int32_t> decoder_start_of(const models::ModelSpec& model) {
  if (!model.is_encoder_decoder()) return std::nullopt;
  return narrow<int32_t>(model.decoder_start);
}

/// How long the examples may be, of an encoder-decoder on both sides.
tune::LengthRule length_rule(const config::Recipe& recipe, const char* key,
                             const store::ModelSource& model) {
  const int64_t length =
      recipe.train.sequence_length > 0 ? recipe.train.sequence_length : model.spec().context;
  if (!model.spec().is_encoder_decoder()) return {key, length, recipe.tune.overlong};
  const int64_t answer = recipe.tune.answer_length > 0 ? recipe.tune.answer_length : length;
  return {key, answer, recipe.tune.overlong, length, end_id_of(model, recipe.tune.model)};
}

/// What `read` makes of what makes ids of lines.
template <typename Read>
auto with_form(const config::Recipe& recipe, const store::ModelSource& model, const Read& read) {
  const int64_t virtual_tokens = virtual_tokens_of(recipe);
  const std::string given =
      tune::without_virtual_mark(recipe.tune.template_text, virtual_tokens > 0);
  const bool only_fields = !given.empty() && !is_chat_template(given);
  const chat::ChatFolder chats = chats_of(recipe, model);
  const tune::ExampleForm form{.tokenizer = model.require_tokenizer(),
                               .chats = chats,
                               .end_id = end_id_of(model, recipe.tune.model),
                               .fields = tune::FieldTemplate(only_fields ? given : kDefaultTemplate,
                                                             "recipe: tune.template"),
                               .only_fields = only_fields,
                               .before = layers::virtual_ids(model.spec().vocab, virtual_tokens),
                               .decoder_start = decoder_start_of(model.spec())};
  return read(form);
}

/// Each window of a question is an example, whose target is the answer's first and last token.
std::vector<tune::Example> read_questions(const std::vector<std::string>& files,
                                          const text::Tokenizer& tokenizer,
                                          const questions::WindowRule& rule,
                                          tune::ExampleCounts& counts) {
  std::vector<tune::Example> examples;
  for (const std::string& file : files) {
    const questions::QuestionSet set =
        questions::read_question_file(file, questions::AnswerPlaces::needed);
    questions::QuestionEncoder encoder(tokenizer, rule);
    for (const questions::Question& question : set.questions) {
      ++counts.lines;
      for (questions::QuestionWindow& window : encoder.windows(set, question)) {
        const auto [first, last] = questions::answer_in(window, question);
        tune::Example& example = examples.emplace_back(
            tune::Example{std::move(window.ids), {}, std::move(window.types)});
        example.learned.assign(example.ids.size(), 0);
        example.target = tune::Target{.label = first, .last = last};
      }
    }
  }
  return examples;
}

/// The examples of a classifier, as tune.task says.
std::vector<tune::Example> read_classified(const std::vector<std::string>& files,
                                           const config::Recipe& recipe,
                                           const store::ModelSource& model,
                                           const tune::LengthRule& rule,
                                           tune::ExampleCounts& counts) {
  const text::Tokenizer& tokenizer = model.require_tokenizer();
  switch (recipe.tune.task) {
    case config::ClassifyTask::sequence_classification:
      break;
    case config::ClassifyTask::token_classification: {
      auto examples = tune::read_tagged(files, tokenizer, recipe.tune.labels, rule, counts);
      tune::require_examples(!examples.empty(), rule, counts);
      return examples;
    }
    case config::ClassifyTask::question_answering:
      return read_questions(files, tokenizer,
                            {.most_tokens = rule.most_tokens,
                             .stride = recipe.tune.stride,
                             .has_types = model.spec().embedding.token_types > 1},
                            counts);
  }
  return tune::read_labelled(files, tokenizer, recipe.tune.labels, rule, counts);
}

double percent_full(const data::BatchSource& source, int64_t tokens, int64_t of_sample) {
  return 100.0 * static_cast<double>(tokens) /
         static_cast<double>(source.samples_per_epoch() * of_sample);
}

/// How `count` examples or pairs of some files fit into samples.
template <typename Source>
void say_sizes(const Source& source, const char* units, int64_t count, const tune::LengthRule& rule,
               const tune::ExampleCounts& counts) {
  const int64_t length = rule.most_tokens, long_ones = counts.dropped + counts.truncated;
  log::info("{}: {} {} of {} lines, {} tokens ({} learned) in {} samples of {} ({:.1f} % full)",
            rule.key, count, units, counts.lines, source.num_tokens(), source.num_learned(),
            source.samples_per_epoch(), length, percent_full(source, source.num_tokens(), length));
  if (long_ones > 0) {
    log::warning("{}: {} {} longer than {} tokens{}: {} left out, {} truncated", rule.key,
                 long_ones, units, length,
                 rule.most_read > 0 ? fmt::format(" to answer or, {} of them, {} to read",
                                                  counts.long_read, rule.most_read)
                                    : "",
                 counts.dropped, counts.truncated);
  }
  if (counts.unlabelled > 0)
    log::warning("{}: {} texts left out: none of their words has a tag", rule.key,
                 counts.unlabelled);
}

/// Likewise what an encoder reads of them.
void say_read(const tune::ExampleSource& source, const tune::LengthRule& rule) {
  if (rule.most_read == 0) return;
  log::info("{}: of each sample an encoder reads {} tokens, {} of all ({:.1f} % full)", rule.key,
            rule.most_read, source.num_read(),
            percent_full(source, source.num_read(), rule.most_read));
}

}  // namespace

int64_t virtual_tokens_of(const config::Recipe& recipe) {
  return recipe.tune.has_virtual_tokens() ? recipe.tune.virtual_tokens : 0;
}

Samples read_samples(const std::vector<std::string>& files, const char* key,
                     const config::Recipe& recipe, const store::ModelSource& model, bool shuffle) {
  const tune::LengthRule rule = length_rule(recipe, key, model);
  tune::ExampleCounts counts;
  const tune::ExampleSourceOptions options{.sequence_length = rule.most_tokens,
                                           .vocab_size = model.spec().vocab,
                                           .virtual_tokens = virtual_tokens_of(recipe),
                                           .seed = static_cast<uint64_t>(recipe.run.seed),
                                           .shuffle = shuffle,
                                           .numbers = recipe.tune.labels.size() == 1,
                                           .spans = recipe.answers_questions(),
                                           .encoder_length = rule.most_read};
  if (recipe.compares()) {
    const auto source = std::make_shared<const tune::PreferenceSource>(
        with_form(recipe, model,
                  [&](const tune::ExampleForm& form) {
                    return tune::read_preferences(files, form, rule, counts);
                  }),
        options);
    say_sizes(*source, "pairs", source->num_pairs(), rule, counts);
    return {source, source->most_learned(), source};
  }
  const auto examples = recipe.classifies()
                            ? read_classified(files, recipe, model, rule, counts)
                            : with_form(recipe, model, [&](const tune::ExampleForm& form) {
                                return tune::read_examples(files, form, rule, counts);
                              });
  const auto source = std::make_shared<const tune::ExampleSource>(examples, options);
  say_sizes(*source, "examples", source->num_examples(), rule, counts);
  say_read(*source, rule);
  return {source, source->most_learned(), nullptr, source};
}

Samples in_order_of(const Samples& samples, uint64_t seed) {
  if (samples.preferences) {
    const auto pairs = std::make_shared<const tune::PreferenceSource>(*samples.preferences, seed);
    return {pairs, samples.most_learned, pairs};
  }
  return {std::make_shared<const tune::ReorderedSource>(samples.examples, seed),
          samples.most_learned, nullptr, samples.examples};
}

}  // namespace megalith::apps
