// SPDX-License-Identifier: Apache-2.0
#include "tasks/built_in.h"

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "tasks/built_in_tables.h"
#include "tasks/preparation.h"

namespace megalith::tasks {
namespace {

const Splits kValidation = {.training = "train", .validation = "validation"};
const Splits kAll = {.training = "train", .validation = "validation", .test = "test"};
const Splits kTest = {.test = "test"};

Part template_of(const char* source, const std::string& task) {
  return Part(source, task + " doc_to_text");
}

Task task_of(std::string name, std::string dataset, Splits splits, OutputType type) {
  Task task;
  task.name = std::move(name);
  task.dataset = std::move(dataset);
  task.splits = std::move(splits);
  task.type = type;
  task.metrics = default_metrics(type);
  task.version = 1;
  return task;
}

Task choice_task(std::string name, std::string dataset, Splits splits, const char* text,
                 const char* choices, const char* target) {
  Task task =
      task_of(std::move(name), std::move(dataset), std::move(splits), OutputType::multiple_choice);
  task.text = template_of(text, task.name);
  task.choices = Part::field(choices);
  task.target = Part::field(target);
  return task;
}

Task lambada(const std::string& name, const char* dataset) {
  Task task = task_of(name, dataset, kTest, OutputType::loglikelihood);
  task.files = {"lambada"};
  task.text = template_of("{{text.split(' ')[:-1]|join(' ')}}", name);
  task.target = Part("{{' '+text.split(' ')[-1]}}", name + " doc_to_target");
  return task;
}

Task hellaswag() {
  Task task =
      choice_task("hellaswag", "Rowan/hellaswag", kValidation, "{{query}}", "choices", "gold");
  task.prepare = prepare_hellaswag;
  return task;
}

Task piqa() {
  Task task =
      choice_task("piqa", "baber/piqa", kValidation, "Question: {{goal}}\nAnswer:", "", "label");
  task.choices = Part("{{[sol1, sol2]}}", "piqa doc_to_choice");
  return task;
}

Task winogrande() {
  Task task = task_of("winogrande", "allenai/winogrande", kValidation, OutputType::multiple_choice);
  task.files = {"winogrande_xl"};
  task.prepare = prepare_winogrande;
  task.text = Part::field("gold");  // a number: the contexts differ, and are the choices
  task.choices = Part::field("contexts");
  task.target = Part::field("rest");
  task.metrics = {default_use(Metric::acc)};
  return task;
}

Task arc(const std::string& name, std::vector<std::string> files) {
  Task task = choice_task(name, "allenai/ai2_arc", kAll,
                          "Question: {{question}}\nAnswer:", "options", "gold");
  task.files = std::move(files);
  task.prepare = prepare_science_question;
  return task;
}

Task openbookqa() {
  Task task =
      choice_task("openbookqa", "allenai/openbookqa", kAll, "{{question_stem}}", "options", "gold");
  task.prepare = prepare_science_question;
  return task;
}

Task boolq() {
  Task task = choice_task("boolq", "aps/super_glue", kValidation,
                          "{{passage}}\nQuestion: {{question}}?\nAnswer:", "", "gold");
  task.choices = Part(std::vector<std::string>{"no", "yes"});
  task.prepare = prepare_boolq;
  task.metrics = {default_use(Metric::acc)};
  task.version = 2;
  return task;
}

Task race() {
  Task task = choice_task("race", "EleutherAI/race", kTest, "{{query}}", "options", "gold");
  task.files = {"race_high"};
  task.group = group_race;
  task.prepare = prepare_race;
  task.metrics = {default_use(Metric::acc)};
  task.version = 3;
  return task;
}

Task wikitext() {
  Task task = task_of("wikitext", "EleutherAI/wikitext_document_level", kAll,
                      OutputType::loglikelihood_rolling);
  task.prepare = prepare_wikitext;
  task.target = Part::field("text");
  task.counted = "page";
  task.version = 2;
  return task;
}

MetricUse match(MatchOptions options) {
  return {.metric = Metric::exact_match, .match = std::move(options)};
}

Task gsm8k() {
  using Kind = FilterStep::Kind;
  Task task =
      task_of("gsm8k", "openai/gsm8k", {.training = "train", .test = "test", .fewshot = "train"},
              OutputType::generate_until);
  task.text = template_of("Question: {{question}}\nAnswer:", task.name);
  task.target = Part::field("answer");
  task.shots = 5;
  task.generation.until = {"Question:", "</s>", "<|im_end|>"};
  task.metrics = {
      match({.regexes_to_ignore = {",", "\\$", "(?s).*#### ", "\\.$"}, .ignore_case = true})};
  task.filters = {
      {"strict-match", {{.kind = Kind::regex}, {}}},
      {"flexible-extract",
       {{.kind = Kind::regex, .pattern = "(-?[$0-9.,]{2,})|(-?[0-9]+)", .group_select = -1}, {}}}};
  task.version = 3;
  return task;
}

Task triviaqa() {
  Task task = task_of("triviaqa", "mandarjoshi/trivia_qa", kValidation, OutputType::generate_until);
  task.files = {"trivia_qa"};
  task.text = template_of("Question: {{question}}?\nAnswer:", task.name);
  task.target = Part("{{answer.aliases}}", "triviaqa doc_to_target");
  task.generation.until = {"\n", ".", ","};
  task.metrics = {match({.ignore_case = true, .ignore_punctuation = true})};
  task.filters = {{"remove_whitespace", {{.kind = FilterStep::Kind::remove_whitespace}, {}}}};
  task.version = 3;
  return task;
}

}  // namespace

const TaskTable& lm_eval_tasks() {
  static const TaskTable table = {
      {"lambada_openai", [] { return lambada("lambada_openai", "EleutherAI/lambada_openai"); }},
      {"lambada_standard", [] { return lambada("lambada_standard", "cimec/lambada"); }},
      {"hellaswag", hellaswag},
      {"piqa", piqa},
      {"winogrande", winogrande},
      {"arc_easy",
       [] {
         return arc("arc_easy", {"ARC-Easy", "arc_e"});
       }},
      {"arc_challenge",
       [] {
         return arc("arc_challenge", {"ARC-Challenge", "arc_c"});
       }},
      {"boolq", boolq},
      {"race", race},
      {"openbookqa", openbookqa},
      {"wikitext", wikitext},
      {"gsm8k", gsm8k},
      {"triviaqa", triviaqa},
  };
  return table;
}

std::vector<std::string> task_names(Profile profile) {
  std::vector<std::string> names;
  const TaskTable& table = profile == Profile::nemo ? nemo_tasks() : lm_eval_tasks();
  for (const auto& [name, make] : table) names.push_back(name);
  if (profile == Profile::lm_eval) {
    names.emplace_back("mmlu");
    for (const char* const group : kMmluGroups) names.push_back(fmt::format("mmlu_{}", group));
  }
  std::ranges::sort(names);
  return names;
}

TaskList find_tasks(const std::vector<std::string>& names, Profile profile) {
  const TaskTable& table = profile == Profile::nemo ? nemo_tasks() : lm_eval_tasks();
  TaskList all;
  const auto add = [](auto& to, auto from) {
    for (auto& one : from) {
      const auto is_it = [&](const auto& other) { return other.name == one.name; };
      if (std::ranges::none_of(to, is_it)) to.push_back(std::move(one));
    }
  };
  for (const std::string& name : names) {
    TaskList found;
    if (const auto at = table.find(name); at != table.end()) {
      found.tasks.push_back(at->second());
    } else if (profile == Profile::nemo || !add_mmlu(name, found)) {
      throw UserError("--tasks {}: there is no such task of the profile {}; did you mean {}?", name,
                      name_of(profile), nearest(name, task_names(profile)));
    }
    add(all.tasks, std::move(found.tasks));
    add(all.groups, std::move(found.groups));
  }
  return all;
}

}  // namespace megalith::tasks
