// SPDX-License-Identifier: Apache-2.0
#include "apps/training/tune_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "apps/training/sample_sizes.h"
#include "base/file.h"
#include "base/integer.h"
#include "base/log.h"
#include "chat/conversation.h"
#include "layers/virtual_tokens.h"
#include "tune/labelled_file.h"
#include "tune/prompt_start.h"
#include "tune/tagged_file.h"
#include "tune/task_examples.h"

namespace megalith::apps {
namespace {

constexpr std::string_view kDefaultTemplate = "{input} {output}";
constexpr char kChatTemplateName[] = "chat_template.jinja";
constexpr int64_t kMostTemplateBytes = 16 << 20;

bool is_chat_template(const std::string& text) { return text.ends_with(".jinja"); }

/// The templates beside the model, or the one that a key of the recipe gives.
chat::ChatFolder chats_of(const std::string& given, const std::string& key,
                          const config::Recipe& recipe, const store::ModelSource& model) {
  std::map<std::string, std::string> files = model.texts();
  if (is_chat_template(given)) {
    files[kChatTemplateName] = read_file(given, kMostTemplateBytes);
    tune::refuse_virtual_mark(files[kChatTemplateName], key, given);
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

/// What makes ids of lines.
struct LineForm {
  std::unique_ptr<const chat::ChatFolder> chats;  // to which the form refers
  tune::ExampleForm form;
};

/// Of lines in the form of a template, or of none, that a key of the recipe gives; with the virtual
/// tokens of a task, if there are any.
LineForm line_form(const std::string& text, const std::string& key, int64_t task,
                   const config::Recipe& recipe, const store::ModelSource& model,
                   const Marks& marks) {
  const int64_t virtual_tokens = virtual_tokens_of(recipe), first_row = task * virtual_tokens;
  std::string given = text;
  std::vector<int32_t> before;
  if (marks) {
    tune::require_virtual_marks(text, key, recipe.tune.splits.size());
  } else {
    given = tune::without_virtual_mark(text, key, virtual_tokens > 0);
    before = layers::virtual_ids(model.spec().vocab + first_row, virtual_tokens);
  }
  const bool only_fields = !given.empty() && !is_chat_template(given);
  auto chats = std::make_unique<const chat::ChatFolder>(chats_of(given, key, recipe, model));
  const tune::ExampleForm form{
      .tokenizer = marks ? marks->tokenizer() : model.require_tokenizer(),
      .chats = *chats,
      .end_id = end_id_of(model, recipe.tune.model),
      .fields = tune::FieldTemplate(only_fields ? given : kDefaultTemplate, "recipe: " + key),
      .only_fields = only_fields,
      .before = before,
      .decoder_start = decoder_start_of(model.spec()),
      .marks = marks ? &*marks : nullptr,
      .first_row = first_row};
  return {std::move(chats), form};
}

/// Of all lines of a recipe without tasks.
LineForm line_form(const config::Recipe& recipe, const store::ModelSource& model,
                   const Marks& marks) {
  return line_form(recipe.tune.template_text, "tune.template", 0, recipe, model, marks);
}

/// Files that a recipe names for one purpose, in common or those of each task.
struct Files {
  const char* key;
  const std::vector<std::string>& common;
  std::vector<std::string> config::TuneTask::*own;
  bool for_training;
};
Files files_for(SamplesFor purpose, const config::TuneSection& tune) {
  if (purpose == SamplesFor::training)
    return {"tune.data", tune.data, &config::TuneTask::data, true};
  return {"tune.validation", tune.validation, &config::TuneTask::validation, false};
}

/// Appends the examples of one task's own files.
void read_own(const std::vector<std::string>& files, const std::string& key, tune::TaskForm& task,
              tune::LengthRule rule, tune::ExampleCounts& counts,
              std::vector<tune::Example>& examples) {
  rule.key = key.c_str();
  tune::ExampleCounts own;
  auto some = tune::read_task_examples(files, std::span(&task, 1), rule, own);
  examples.insert(examples.end(), std::make_move_iterator(some.begin()),
                  std::make_move_iterator(some.end()));
  counts += own;
}

/// Of all tasks, each behind virtual tokens of its own.
std::vector<tune::Example> read_tasks(const Files& files, const config::Recipe& recipe,
                                      const store::ModelSource& model, const Marks& marks,
                                      const tune::LengthRule& rule, tune::ExampleCounts& counts) {
  const std::vector<config::TuneTask>& tasks = recipe.tune.tasks;
  std::vector<LineForm> forms;
  for (size_t i = 0; i < tasks.size(); ++i) {
    forms.push_back(line_form(tasks[i].template_text, fmt::format("tune.tasks.{}.template", i),
                              static_cast<int64_t>(i), recipe, model, marks));
    forms.back().form.task = static_cast<int32_t>(i);
  }
  std::vector<tune::TaskForm> named;
  for (size_t i = 0; i < tasks.size(); ++i) named.push_back({tasks[i].name, forms[i].form});
  std::vector<tune::Example> examples;
  if (!files.common.empty()) examples = tune::read_task_examples(files.common, named, rule, counts);
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (const auto& own = tasks[i].*files.own; !own.empty())
      read_own(own, fmt::format("{}, task {}", files.key, tasks[i].name), named[i], rule, counts,
               examples);
    if (files.for_training && named[i].examples == 0)
      throw UserError("recipe: {}: no example of task {:?} among {} lines", files.key,
                      tasks[i].name, counts.lines);
    log::info("{}: task {}: {} examples", files.key, tasks[i].name, named[i].examples);
  }
  return examples;
}

/// The examples of a classifier, as tune.task says; `asked`: read_questions().
std::vector<tune::Example> read_classified(const std::vector<std::string>& files,
                                           const config::Recipe& recipe,
                                           const store::ModelSource& model,
                                           const tune::LengthRule& rule,
                                           tune::ExampleCounts& counts,
                                           tune::AskedQuestions* asked) {
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
      return tune::read_questions(files, tokenizer,
                                  {.most_tokens = rule.most_tokens,
                                   .stride = recipe.tune.stride,
                                   .has_types = model.spec().embedding.token_types > 1},
                                  counts, asked);
  }
  return tune::read_labelled(files, tokenizer, recipe.tune.labels, rule, counts);
}

/// How many questions a validation scores. UserError where it has to score some, and can't.
void say_scored(const tune::AnswerJudge& judge, const tune::ExampleSource& source,
                const config::Recipe& recipe) {
  const int64_t samples = std::min(recipe.train.validate_samples, source.samples_per_epoch());
  const int64_t scored = std::ssize(judge.whole_questions(samples));
  if (scored == judge.num_questions()) return;
  if (scored == 0 && recipe.train.best_by != config::BestBy::loss) {
    throw UserError(
        "recipe: train.best_by: {} is of questions, and the first {} of {} samples have no "
        "question whole; set a larger train.validate_samples",
        recipe.train.best_by, samples, source.samples_per_epoch());
  }
  log::warning(
      "tune.validation: {} of {} questions are scored, those whose windows are all in the first {} "
      "of {} samples (train.validate_samples)",
      scored, judge.num_questions(), samples, source.samples_per_epoch());
}

}  // namespace

int64_t virtual_tokens_of(const config::Recipe& recipe) {
  return recipe.tune.has_virtual_tokens() ? recipe.tune.virtual_tokens : 0;
}

Marks marks_of(const config::Recipe& recipe, const store::ModelSource& model) {
  if (recipe.tune.splits.empty()) return std::nullopt;
  return adapters::PromptMarks(model.require_tokenizer(), model.spec().vocab,
                               recipe.tune.rows_of_marks());
}

Samples read_samples(SamplesFor purpose, const config::Recipe& recipe,
                     const store::ModelSource& model, const Marks& marks) {
  const Files files = files_for(purpose, recipe.tune);
  const tune::LengthRule rule = length_rule(recipe, files.key, model);
  tune::ExampleCounts counts;
  const tune::ExampleSourceOptions options{.sequence_length = rule.most_tokens,
                                           .vocab_size = model.spec().vocab,
                                           .virtual_tokens = virtual_tokens_of(recipe),
                                           .has_marks = marks.has_value(),
                                           .seed = static_cast<uint64_t>(recipe.run.seed),
                                           .shuffle = files.for_training,
                                           .numbers = recipe.tune.labels.size() == 1,
                                           .spans = recipe.answers_questions(),
                                           .encoder_length = rule.most_read,
                                           .num_tasks = std::ssize(recipe.tune.tasks)};
  if (recipe.compares()) {
    const LineForm lines = line_form(recipe, model, marks);
    const auto source = std::make_shared<const tune::PreferenceSource>(
        tune::read_preferences(files.common, lines.form, rule, counts), options);
    say_sizes(*source, rule, counts);
    return {source, source->most_learned(), source};
  }
  tune::AskedQuestions asked;
  const bool are_judged = recipe.answers_questions() && !files.for_training;
  const auto read = [&] {
    if (recipe.classifies())
      return read_classified(files.common, recipe, model, rule, counts,
                             are_judged ? &asked : nullptr);
    if (!recipe.tune.tasks.empty()) return read_tasks(files, recipe, model, marks, rule, counts);
    return tune::read_examples(files.common, line_form(recipe, model, marks).form, rule, counts);
  };
  const auto examples = read();
  const auto source = std::make_shared<const tune::ExampleSource>(examples, options);
  say_sizes(*source, rule, counts);
  if (!files.for_training) say_validated(*source, recipe);
  if (!are_judged) return {source, source->most_learned(), nullptr, source};
  const auto judge = std::make_shared<const tune::AnswerJudge>(std::move(asked), source);
  say_scored(*judge, *source, recipe);
  return {source, source->most_learned(), nullptr, source, judge};
}

Samples in_order_of(const Samples& samples, uint64_t seed) {
  if (samples.preferences) {
    const auto pairs = std::make_shared<const tune::PreferenceSource>(*samples.preferences, seed);
    return {pairs, samples.most_learned, pairs};
  }
  return {std::make_shared<const tune::ReorderedSource>(samples.examples, seed),
          samples.most_learned, nullptr, samples.examples, samples.judge};
}

}  // namespace megalith::apps
