// SPDX-License-Identifier: Apache-2.0
#include "tune/task_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace megalith::tune {
namespace {

using config::TuneTask;
using Faults = std::vector<std::string>;

constexpr int64_t kMostRows = 1 << 16;

/// It becomes that of a folder.
bool is_name(const std::string& name) {
  return !name.empty() && name.front() != '.' && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
  });
}

void check_names(const std::vector<TuneTask>& tasks, Faults& faults) {
  std::vector<std::string> names;
  for (const TuneTask& task : tasks) {
    if (!is_name(task.name))
      faults.push_back(fmt::format(
          "tune.tasks: {:?} is no name of a task; names have letters, digits, '_', '-' and '.'",
          task.name));
    names.push_back(task.name);
  }
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
    faults.push_back(fmt::format("tune.tasks has two tasks of the name {:?}", *twice));
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

/// What the rows of each begin as.
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
        "tune.prompt_init: text needs prompt_text of each of tune.tasks, or tune.prompt_text");
  if (begin_with_text && !tune.prompt_text.empty() && have_all)
    faults.emplace_back(
        "tune.prompt_text has no effect beside prompt_text of each of tune.tasks; take it out of "
        "the recipe");
  if (!begin_with_text && (with_text > 0 || !tune.prompt_text.empty()))
    faults.emplace_back("tune.prompt_text has no effect without tune.prompt_init: text; set that");
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

}  // namespace megalith::tune
