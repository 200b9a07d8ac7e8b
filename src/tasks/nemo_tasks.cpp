// SPDX-License-Identifier: Apache-2.0
// The tasks of NeMo's launcher, whose harness is a fork of lm-eval's first version: where their
// prompts and metrics differ.
#include "tasks/built_in_tables.h"
#include "tasks/preparation.h"

namespace megalith::tasks {
namespace {

Task lm_eval_task(const char* name) { return lm_eval_tasks().at(name)(); }

/// What NeMo's harness does to all of its tasks.
Task nemo(Task task) {
  task.shuffled = true;
  task.norm = Norm::tokens;
  return task;
}

Task nemo_lambada() {
  Task task = lm_eval_task("lambada_openai");
  task.name = task.dataset = "lambada";
  task.files.clear();
  task.prepare = prepare_lambada_nemo;
  task.text = Part::field("context");
  task.target = Part::field("last");
  return nemo(std::move(task));
}

Task nemo_piqa() {
  Task task = lm_eval_task("piqa");
  task.text = Part::field("goal");
  return nemo(std::move(task));
}

Task nemo_race() {
  Task task = nemo(lm_eval_task("race"));
  task.prepare = prepare_race_nemo;
  task.metrics = {default_use(Metric::acc), default_use(Metric::acc_norm)};
  task.norm = Norm::gain;
  task.unconditional = "Answer:";
  return task;
}

Task nemo_boolq() {
  Task task = nemo(lm_eval_task("boolq"));
  task.text = Part("{{passage}}\nQuestion: {{question}}\nAnswer:", "boolq doc_to_text");
  return task;
}

Task nemo_wikitext(const std::string& name) {
  Task task = nemo(lm_eval_task("wikitext"));
  task.name = name;
  task.splits = {.validation = "validation", .test = "test"};
  for (MetricUse& use : task.metrics)
    if (use.metric == Metric::bits_per_byte) use.aggregation = Aggregation::nats_per_byte;
  return task;
}

}  // namespace

const TaskTable& nemo_tasks() {
  static const TaskTable table = {
      {"lambada", nemo_lambada},
      {"boolq", nemo_boolq},
      {"race", nemo_race},
      {"piqa", nemo_piqa},
      {"hellaswag", [] { return nemo(lm_eval_task("hellaswag")); }},
      {"winogrande", [] { return nemo(lm_eval_task("winogrande")); }},
      {"wikitext2", [] { return nemo_wikitext("wikitext2"); }},
      {"wikitext103", [] { return nemo_wikitext("wikitext103"); }},
  };
  return table;
}

}  // namespace megalith::tasks
