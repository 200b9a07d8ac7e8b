// SPDX-License-Identifier: Apache-2.0
// What megalith tune trains on: the examples or pairs of a recipe's files.
#pragma once

#include <memory>
#include <optional>

#include "adapters/prompt_marks.h"
#include "config/recipe.h"
#include "preferences/preference_source.h"
#include "store/model_source.h"
#include "tune/example_source.h"
#include "tune/question_examples.h"

namespace megalith::apps {

/// Where a run's samples come from.
struct Samples {
  std::shared_ptr<const data::BatchSource> source;  // null: none
  int64_t most_learned = 0;                         // tokens of a sample
  /// The same source, where answers are compared.
  std::shared_ptr<const tune::PreferenceSource> preferences = nullptr;
  /// The same source, where answers are learned.
  std::shared_ptr<const tune::ExampleSource> examples = nullptr;
  /// Scores validations on it, where questions are answered.
  std::shared_ptr<const tune::AnswerJudge> judge = nullptr;
};

/// Of every text of this recipe.
int64_t virtual_tokens_of(const config::Recipe& recipe);
/// Of virtual tokens that stand inside texts, as those of all tasks do; nothing of others.
using Marks = std::optional<adapters::PromptMarks>;
Marks marks_of(const config::Recipe& recipe, const store::ModelSource& model);
enum class SamplesFor { training, validation };
/// The examples or pairs of the files that a recipe names for it; says how they fit into samples,
/// and how many each task has. UserError with file and line for what is none, and for a task with
/// none to train on. Those of training are shuffled.
Samples read_samples(SamplesFor purpose, const config::Recipe& recipe,
                     const store::ModelSource& model, const Marks& marks);
/// The same samples in the order of a seed.
Samples in_order_of(const Samples& samples, uint64_t seed);

}  // namespace megalith::apps
