// SPDX-License-Identifier: Apache-2.0
// What the commands that train share: a run in its folder, on ranks, with its plan, text samples
// and report around the training loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/ranks.h"
#include "apps/recipe_options.h"
#include "config/recipe.h"
#include "data/batch_source.h"
#include "engine/settings.h"
#include "text/tokenizer.h"
#include "train/loop.h"

namespace megalith::apps {

struct TrainingOptions {
  int ranks = 0;
  int64_t profile_steps = 0;
  std::vector<std::string> allow;
  bool restart = false;
  void declare(CLI::App& command);
};

/// A run, and where its samples and weights come from. Each rank of this process calls the
/// functions.
struct Training {
  config::Recipe recipe;
  const text::Tokenizer* tokenizer = nullptr;  // null: none
  std::string base = {};                       // train::RunInputs
  /// Of the recipe, and of others that differ in what memory they take.
  std::function<engine::Settings(const config::Recipe&)> settings;
  using Samples = std::function<std::shared_ptr<const data::BatchSource>(const engine::Settings&)>;
  Samples training_samples;
  Samples validation_samples;  // null: the recipe validates never
  /// Says what a run begins with, if not with weights from its seed. What the result holds lives as
  /// long as the run. Collective.
  std::function<std::shared_ptr<const void>(const RankPlace&, train::RunInputs&)> begin;
  std::function<void()> ended = {};  // in the process of rank 0, when the run is over and saved
};

/// Gives the exit code.
using RunCommand = int (*)(const RecipeOptions& options, const TrainingOptions& extra, bool json);
/// A command that trains as a recipe says.
void add_training_command(CLI::App& app, Invocation& invocation, const char* name,
                          const char* description, const char* examples, RunCommand run);

/// How runs ended: of those that began, in order, in the process of rank 0; nothing in others.
struct RunsInTurn {
  std::vector<train::RunResult> results;
  int signal = 0;  // that stopped the last of them; 0: none
  int exit_code() const { return signal != 0 ? 128 + signal : 0; }
};
/// Runs on the same ranks, one after another until one is stopped, each with its report; all their
/// folders are theirs from the beginning on; `held` is called once they are, in the process of
/// rank 0.
RunsInTurn run_in_turn(std::span<const Training> runs, const std::optional<Launch>& launch,
                       const train::StopRequest& stop, const TrainingOptions& extra, bool json,
                       const std::function<void()>& held = {});
/// The result as one line of JSON on standard output.
void print_result(const train::RunResult& result);
/// One run. Gives the exit code.
int run_training(const Training& training, const std::optional<Launch>& launch,
                 const train::StopRequest& stop, const TrainingOptions& extra, bool json);

}  // namespace megalith::apps
