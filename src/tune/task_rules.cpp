// SPDX-License-Identifier: Apache-2.0
#include "tune/task_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace megalith::tune {
namespace {

using config::TuneTask;
using Faults = std::vector<std::string>;

constexpr int64_t kMostRows = 1 << 16, kLongestName = 128;

/// It becomes the name of a folder.
bool is_name(const std::string& name) {
  return !name.empty() && std::ssize(name) <= kLongestName && name.front() != '.' &&
         std::ranges::all_of(name, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
         });
}

void check_names(const std::vector<TuneTask>& tasks, Faults& faults) {
  std::vector<std::string> names;
  for (const TuneTask& task : tasks) {
    if (!is_name(task.name))
      faults.push_back(
          fmt::format("tune.tasks: {:?} is no name of a task; names have up to {} letters, digits, "
                      "'_', '-' and '.', and do not begin with '.'",
                      task.name, kLongestName));
    names.push_back(task.name);
  }
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
    faults.push_back(fmt::format("tune.tasks has two tasks named {:?}", *twice));
}

/// Files are those of the tasks, or common ones.
void check_files(const config::TuneSection& tune, Faults& faults) {
  const auto own = [&](const std::vector<std::string> TuneTask::*files) {
    return std::ranges::count_if(tune.tasks,
                                 [&](const TuneTask& t) { return !(t.*files).empty(); });
  };
  if (!tune.data.empty() && own(&TuneTask::data) > 0)
    faults.emplace_back("tune.data and data of tune.tasks both name files; take one of them out");
  if (!tune.validation.empty() && own(&TuneTask::validation) > 0)
    faults.emplace_back(
        "tune.validation and validation of tune.tasks both name files; take one of them out");
  if (!tune.data.empty()) return;
  for (const TuneTask& task : tune.tasks)
    if (task.data.empty())
      faults.push_back(
          fmt::format("tune.tasks: task {:?} names no file of examples; set its data, or set "
                      "tune.data to files whose lines name their task",
                      task.name));
}

/// The texts whose tokens the rows of each task begin as.
void check_texts(const config::TuneSection& tune, Faults& faults) {
  const auto with_text = std::ranges::count_if(
      tune.tasks, [](const TuneTask& task) { return !task.prompt_text.empty(); });
  if (tune.method == config::TuneMethod::p_tuning) {
    if (with_text > 0)
      faults.emplace_back(
          "tune.tasks: prompt_text has no effect with tune.method: p_tuning; take it out of the "
          "recipe, or set tune.method: prompt");
    return;
  }
  const bool begin_with_text = tune.prompt_init == config::PromptInit::text;
  const bool have_all = with_text == std::ssize(tune.tasks);
  if (begin_with_text && tune.prompt_text.empty() && !have_all)
    faults.emplace_back(
        "tune.prompt_init: text needs prompt_text in each of tune.tasks, or tune.prompt_text");
  if (begin_with_text && !tune.prompt_text.empty() && have_all)
    faults.emplace_back(
        "tune.prompt_text has no effect beside prompt_text in each of tune.tasks; take it out of "
        "the recipe");
  if (!begin_with_text && !tune.prompt_text.empty())
    faults.emplace_back("tune.prompt_text has no effect without tune.prompt_init: text; set that");
  if (!begin_with_text && with_text > 0)
    faults.emplace_back(
        "tune.tasks: prompt_text has no effect without tune.prompt_init: text; set that");
}

}  // namespace

void check_tasks(const config::Recipe& recipe, Faults& faults) {
  const config::TuneSection& tune = recipe.tune;
  if (tune.tasks.empty()) return;
  if (!tune.has_virtual_tokens()) {
    faults.push_back(
        fmt::format("tune.tasks has no effect with tune.method: {}; take it out of the recipe, or "
                    "set tune.method: prompt or p_tuning",
                    tune.method));
    return;
  }
  if (tune.objective == config::TuneObjective::dpo)
    faults.emplace_back("tune.tasks is not built with tune.objective: dpo; set sft");
  check_names(tune.tasks, faults);
  check_files(tune, faults);
  check_texts(tune, faults);
  if (!tune.template_text.empty())
    faults.emplace_back("tune.template has no effect beside tune.tasks; set template of each");
  if (tune.num_virtual_rows() > kMostRows)
    faults.push_back(fmt::format("tune.tasks have {} virtual tokens together, and may have {}",
                                 tune.num_virtual_rows(), kMostRows));
  if (recipe.train.sample_every > 0)
    faults.emplace_back("train.sample_every: its prompts are of none of tune.tasks; set it to 0");
}

void check_splits(const config::Recipe& recipe, Faults& faults) {
  const config::TuneSection& tune = recipe.tune;
  if (tune.splits.empty() || !tune.has_virtual_tokens()) return;
  double sum = 0;
  bool are_whole = true;
  for (const double split : tune.splits) {
    sum += split;
    are_whole = are_whole && split == std::floor(split);
  }
  if (!are_whole || sum != static_cast<double>(tune.virtual_tokens))
    faults.push_back(
        fmt::format("tune.virtual_token_splits must be whole numbers whose sum is {}, which "
                    "tune.virtual_tokens says",
                    tune.virtual_tokens));
  const auto has_place = [](const std::string& text) {
    return !text.empty() && !text.ends_with(".jinja");
  };
  const bool have_places =
      tune.tasks.empty() ? has_place(tune.template_text)
                         : std::ranges::all_of(tune.tasks, has_place, &TuneTask::template_text);
  if (!have_places)
    faults.emplace_back(
        "tune.virtual_token_splits needs a template whose text has the marks, tune.template or "
        "that of each of tune.tasks");
  if (tune.overlong == config::Overlong::truncate)
    faults.emplace_back(
        "tune.overlong: truncate may cut virtual tokens off with tune.virtual_token_splits; set "
        "drop or refuse");
  if (tune.objective == config::TuneObjective::dpo)
    faults.emplace_back("tune.virtual_token_splits is not built with tune.objective: dpo; set sft");
  if (recipe.train.sample_every > 0)
    faults.emplace_back(
        "train.sample_every: its prompts are read without the marks of tune.virtual_token_splits; "
        "set it to 0");
}

}  // namespace megalith::tune
