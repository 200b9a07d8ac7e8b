// SPDX-License-Identifier: Apache-2.0
// megalith evaluate glue
#include "metrics/glue.h"

#include <memory>
#include <nlohmann/json.hpp>

#include "apps/tasks/tasks.h"
#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "questions/question_scores.h"

namespace megalith::apps {
namespace {

using Json = nlohmann::ordered_json;

struct GlueOptions {
  std::string task, predictions;
  std::optional<std::string> labels, output;
};

void print(const std::string& task, const Json& metrics, int64_t examples, bool json) {
  if (json) return print_json({{"task", task}, {"metrics", metrics}, {"examples", examples}});
  for (const auto& [name, value] : metrics.items())
    fmt::print("{} {:.4f}\n", name, value.get<double>());
  fmt::print("{} examples of {}\n", examples, task);
}

int run(const GlueOptions& o, bool json) {
  if (!o.labels && !o.output)
    throw UserError("give --labels to compare with, or --output for a file to submit");
  if (o.task == "squad" || o.task == "SQuAD") {
    if (!o.labels || o.output)
      throw UserError("squad takes --labels, the set's own file, and submits no TSV");
    const questions::QuestionSet set =
        questions::read_question_file(*o.labels, questions::AnswerPlaces::ignored);
    const auto given = questions::read_answers(o.predictions, set);
    print("squad", questions::answer_scores(set, given), std::ssize(given), json);
    return 0;
  }
  const metrics::GlueTask& task = metrics::glue_task(o.task);
  const metrics::Labels predictions = metrics::read_labels(o.predictions, task);
  const std::string text = o.output ? metrics::submission(task, predictions) : "";
  if (o.labels) {
    const metrics::Labels labels = metrics::read_labels(*o.labels, task);
    print(task.name, metrics::glue_metrics(task, labels, predictions), std::ssize(labels.values),
          json);
  }
  if (o.output) {
    make_folders(*o.output);
    write_file_durable(std::filesystem::path(*o.output) / task.file, text);
  }
  return 0;
}

}  // namespace

void add_glue(CLI::App& parent, Invocation& invocation) {
  CLI::App& c = add_command(
      parent, invocation, "glue",
      "the numbers of GLUE's, SuperGLUE's and SQuAD's tasks, and files to submit",
      "  megalith evaluate glue --task mrpc --predictions said.jsonl --labels MRPC/dev.tsv\n"
      "  megalith evaluate glue --task rte --predictions said.txt --output submission\n"
      "  megalith evaluate glue --task squad --predictions said.json --labels dev-v1.1.json\n");
  auto o = std::make_shared<GlueOptions>();
  std::string known;
  for (const std::string& name : metrics::glue_tasks()) known += (known.empty() ? "" : ", ") + name;
  c.add_option("--task", o->task, known)->required();
  c.add_option("--predictions", o->predictions,
               "a label's name or number on each line, or JSON with \"label\" or \"prediction\" as "
               "evaluate classify writes it; of squad {\"id\": \"text\"}")
      ->required();
  c.add_option("--labels", o->labels, "likewise, or the benchmark's own TSV; of squad its JSON");
  c.add_option("--output", o->output, "a folder for the TSV to submit (made if absent)");
  c.callback(
      [=, &invocation] { invocation.run = [=, &invocation] { return run(*o, invocation.json); }; });
}

}  // namespace megalith::apps
