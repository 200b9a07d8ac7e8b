// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/checkpoint_options.h"
#include "apps/evaluate_marks.h"
#include "base/error.h"
#include "base/log.h"
#include "inference/sequence_reader.h"
#include "metrics/tags.h"
#include "tune/tagged_file.h"

namespace megalith::apps {
namespace {

using nlohmann::ordered_json;

struct TagOptions {
  CheckpointOptions checkpoint;
  std::string input;
};

constexpr size_t kTextsAtOnce = 64;

store::ModelSource open_tagging(const TagOptions& o) {
  auto source = open_classifier(o.checkpoint);
  const layers::HeadSpec& head = source.spec().head;
  if (head.kind != layers::HeadKind::token_classification) {
    throw UserError(
        "{}: tags need a model whose head has classes of tokens (token_classification); this one's "
        "is for {}",
        o.checkpoint.path, settings::name_of(head.kind));
  }
  if (head.labels.empty())
    throw UserError("{}: its config.json does not name the classes (id2label)", o.checkpoint.path);
  return source;
}

/// Class indices of each word that has a tag, and how many such words each text has.
struct Compared {
  std::vector<double> labels, predictions, lengths;
};

void compare_tags(const tune::Example& example, const std::vector<std::vector<double>>& outputs,
                  Compared& all) {
  double count = 0;
  for (size_t t = 0; t < example.labels.size(); ++t) {
    if (example.labels[t] < 0) continue;
    const auto best = std::ranges::max_element(outputs[t]) - outputs[t].begin();
    all.labels.push_back(example.labels[t]);
    all.predictions.push_back(static_cast<double>(best));
    ++count;
  }
  all.lengths.push_back(count);
}

void print_tag_scores(const metrics::Scores& scores, const Compared& compared, bool json) {
  const int64_t texts = std::ssize(compared.lengths), words = std::ssize(compared.labels);
  if (json) {
    ordered_json metrics = ordered_json::object();
    for (const auto& [name, value] : scores) metrics[name] = value;
    return print_json({{"metrics", metrics}, {"examples", texts}, {"words", words}});
  }
  for (const auto& [name, value] : scores) fmt::print("{} {:.4f}\n", name, value);
  fmt::print("{} words of {} texts\n", words, texts);
}

int judge_tags(const TagOptions& o, bool json) {
  const auto source = open_tagging(o);
  const std::vector<std::string>& names = source.spec().head.labels;
  tune::ExampleCounts counts;
  const std::vector<tune::Example> examples =
      tune::read_tagged({o.input}, source.require_tokenizer(), names,
                        {"--input", source.spec().context, config::Overlong::truncate}, counts);
  if (examples.empty()) throw UserError("{}: has no words with tags", o.input);
  if (counts.truncated + counts.dropped > 0)
    log::warning("{}: {} texts are longer than the model's context; words beyond it are not scored",
                 o.input, counts.truncated + counts.dropped);
  if (counts.unlabelled > 0)
    log::warning("{}: {} texts are not scored: none of their words has a tag", o.input,
                 counts.unlabelled);
  std::vector<inference::Reading> readings;
  std::string asked;
  for (const tune::Example& example : examples) {
    readings.push_back({example.ids, example.types});
    if (source.spec().embedding.token_types < 2) readings.back().types.clear();
    inference::check_readable(source.spec(), readings.back());
    asked += fmt::format("{} {}\n", example.ids, example.labels);
  }
  on_model_ranks(o.checkpoint, source, asked, [&](const ModelRank& rank) {
    inference::SequenceReader reader(rank.engine.model());
    Compared compared;
    for (size_t begin = 0; begin < readings.size(); begin += kTextsAtOnce) {
      const size_t count = std::min(kTextsAtOnce, readings.size() - begin);
      const auto outputs = reader.outputs(std::span(readings).subspan(begin, count));
      inference::require_finite(outputs);
      for (size_t i = 0; i < outputs.size(); ++i)
        compare_tags(examples[begin + i], outputs[i], compared);
    }
    if (!rank.is_rank_zero) return;
    print_tag_scores(
        metrics::scores_of_tags(names, compared.labels, compared.predictions, compared.lengths),
        compared, json);
  });
  return 0;
}

}  // namespace

void add_tags(CLI::App& parent, Invocation& invocation) {
  CLI::App& c = add_command(
      parent, invocation, "tags",
      "precision, recall and F1 of entities and accuracy of words (token classification)",
      "  megalith evaluate tags --checkpoint bert-ner --input test.conll\n"
      "  megalith evaluate tags --checkpoint bert-ner --input test.jsonl --json\n");
  auto o = std::make_shared<TagOptions>();
  o->checkpoint.declare(c);
  o->checkpoint.declare_adapter(c);
  c.add_option(
       "--input", o->input,
       "words with tags: lines {\"tokens\", \"ner_tags\"} (.jsonl, .json), or CoNLL's columns")
      ->required();
  c.callback([=, &invocation] {
    invocation.run = [=, &invocation] { return judge_tags(*o, invocation.json); };
  });
}

}  // namespace megalith::apps
