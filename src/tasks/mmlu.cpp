// SPDX-License-Identifier: Apache-2.0
// MMLU (Hendrycks et al. 2021): 57 subjects in four groups.
#include <algorithm>
#include <map>

#include "tasks/built_in_tables.h"

namespace megalith::tasks {

std::vector<std::string> mmlu_subjects(std::string_view group) {
  static const std::map<std::string, std::vector<std::string>, std::less<>> kSubjects = {
      {"stem",
       {"abstract_algebra", "anatomy", "astronomy", "college_biology", "college_chemistry",
        "college_computer_science", "college_mathematics", "college_physics", "computer_security",
        "conceptual_physics", "electrical_engineering", "elementary_mathematics",
        "high_school_biology", "high_school_chemistry", "high_school_computer_science",
        "high_school_mathematics", "high_school_physics", "high_school_statistics",
        "machine_learning"}},
      {"other",
       {"business_ethics", "clinical_knowledge", "college_medicine", "global_facts", "human_aging",
        "management", "marketing", "medical_genetics", "miscellaneous", "nutrition",
        "professional_accounting", "professional_medicine", "virology"}},
      {"social_sciences",
       {"econometrics", "high_school_geography", "high_school_government_and_politics",
        "high_school_macroeconomics", "high_school_microeconomics", "high_school_psychology",
        "human_sexuality", "professional_psychology", "public_relations", "security_studies",
        "sociology", "us_foreign_policy"}},
      {"humanities",
       {"formal_logic", "high_school_european_history", "high_school_us_history",
        "high_school_world_history", "international_law", "jurisprudence", "logical_fallacies",
        "moral_disputes", "moral_scenarios", "philosophy", "prehistory", "professional_law",
        "world_religions"}}};
  const auto found = kSubjects.find(group);
  return found == kSubjects.end() ? std::vector<std::string>() : found->second;
}

namespace {

Task mmlu_subject(const std::string& subject) {
  std::string words = subject;
  std::ranges::replace(words, '_', ' ');
  Task task;
  task.name = "mmlu_" + subject;
  task.dataset = "cais/mmlu";
  task.splits = {.test = "test", .fewshot = "dev"};
  task.text = Part(
      "{{question.strip()}}\nA. {{choices[0]}}\nB. {{choices[1]}}\nC. {{choices[2]}}\n"
      "D. {{choices[3]}}\nAnswer:",
      task.name + " doc_to_text");
  task.target = Part::field("answer");
  task.alias = subject;
  task.files = {"mmlu"};
  task.only = Selection{"subject", subject};
  task.first_shots = true;
  task.choices = Part(std::vector<std::string>{"A", "B", "C", "D"});
  task.description =
      "The following are multiple choice questions (with answers) about " + words + ".\n\n";
  task.metrics = {default_use(Metric::acc)};
  task.version = 1;
  return task;
}

}  // namespace

/// Whether `name` is MMLU, one of its groups or subjects; then they are added.
bool add_mmlu(const std::string& name, TaskList& list) {
  const auto add_group = [&](const std::string& group, const std::string& alias,
                             const std::vector<std::string>& subjects) {
    TaskGroup made{.name = group, .alias = alias, .metrics = {Metric::acc}, .version = 2};
    for (const std::string& subject : subjects) made.tasks.push_back("mmlu_" + subject);
    list.groups.push_back(std::move(made));
  };
  std::vector<std::string> all;
  for (const std::string group : kMmluGroups) {
    const std::vector<std::string> subjects = mmlu_subjects(group);
    for (const std::string& subject : subjects) {
      const bool is_asked = name == "mmlu" || name == "mmlu_" + group || name == "mmlu_" + subject;
      if (is_asked) list.tasks.push_back(mmlu_subject(subject));
    }
    if (name == "mmlu" || name == "mmlu_" + group) add_group("mmlu_" + group, group, subjects);
    all.insert(all.end(), subjects.begin(), subjects.end());
  }
  if (name == "mmlu") add_group("mmlu", "mmlu", all);
  return !list.tasks.empty();
}

}  // namespace megalith::tasks
