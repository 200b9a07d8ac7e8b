// SPDX-License-Identifier: Apache-2.0
#include "apps/tasks/tasks.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/checkpoint_options.h"
#include "apps/tasks/model_text.h"
#include "base/clock.h"
#include "base/error.h"
#include "evaluate/results.h"
#include "evaluate/task_evaluation.h"
#include "report/progress.h"
#include "tasks/task_file.h"

namespace megalith::apps {
namespace {

struct TasksOptions {
  CheckpointOptions checkpoint;
  std::vector<std::string> tasks, files;
  std::string data;
  std::string profile = "lm-eval";
  std::optional<int64_t> shots, limit;
  int64_t seed = 1234, resamples = 100000;
  std::optional<std::string> output;
};

/// One living line on a terminal; a line for each task elsewhere.
class TaskProgress {
 public:
  TaskProgress(const evaluate::Questions& questions, bool shows)
      : name_(questions.task.name),
        total_(std::ssize(questions.documents)),
        shows_(shows),
        is_terminal_(isatty(STDERR_FILENO) == 1) {}
  void at(int64_t done) {
    const double now = monotonic_seconds();
    if (!shows_ || !is_terminal_ || (done < total_ && now - told_ < 0.1)) return;
    told_ = now;
    const double left = (now - begin_) / static_cast<double>(std::max<int64_t>(done, 1)) *
                        static_cast<double>(total_ - done);
    fmt::print(stderr, "\r\x1b[K{}: {}/{} documents, {} left", name_, done, total_,
               report::duration_text(left));
    std::fflush(stderr);
  }
  void end() const {
    if (!shows_) return;
    const double seconds = std::max(monotonic_seconds() - begin_, 1e-9);
    fmt::print(stderr, "{}{}: {} documents in {:.1f} s, {:.0f} a second\n",
               is_terminal_ ? "\r\x1b[K" : "", name_, total_, seconds,
               static_cast<double>(total_) / seconds);
  }

 private:
  std::string name_;
  int64_t total_;
  bool shows_, is_terminal_;
  double begin_ = monotonic_seconds(), told_ = 0;
};

/// The model's answers to all tasks, on its ranks.
std::vector<std::vector<evaluate::Response>> answers_of(
    const TasksOptions& o, const store::ModelSource& source, const evaluate::ModelText& model,
    std::span<const evaluate::Questions> questions) {
  std::string asked;
  for (const evaluate::Questions& one : questions) asked += evaluate::fingerprint_of(one) + "\n";
  std::vector<std::vector<evaluate::Response>> answers;
  on_model_ranks(o.checkpoint, source, asked, [&](const ModelRank& rank) {
    for (const evaluate::Questions& one : questions) {
      TaskProgress progress(one, rank.is_rank_zero);
      auto mine = evaluate::answer(one, rank.engine, model, o.output.has_value(),
                                   [&](int64_t done) { progress.at(done); });
      progress.end();
      if (rank.is_rank_zero) answers.push_back(std::move(mine));
    }
  });
  return answers;
}

using Json = nlohmann::ordered_json;

Json error_json(const std::optional<double>& error) { return error ? Json(*error) : Json(); }

void print_lines(std::span<const evaluate::TaskResult> results,
                 std::span<const tasks::TaskGroup> groups, std::string_view profile, bool json) {
  const auto print = [&](const std::string& task, std::string_view metric,
                         const std::string& filter, const evaluate::Summary& summary,
                         int64_t documents) {
    if (json) {
      Json line = {{"task", task},           {"metric", metric},
                   {"value", summary.value}, {"stderr", error_json(summary.error)},
                   {"examples", documents},  {"profile", profile}};
      if (filter != "none") line["filter"] = filter;
      return print_json(line);
    }
    const std::string error = summary.error ? fmt::format("± {:.4f}", *summary.error) : "";
    const std::string name =
        filter == "none" ? std::string(metric) : fmt::format("{} ({})", metric, filter);
    fmt::print("{:<24} {:<32} {:>14.4f} {:<12} {:>7}\n", task, name, summary.value, error,
               documents);
  };
  if (!json)
    fmt::print("{:<24} {:<32} {:>14} {:<12} {:>7}\n", "task", fmt::format("metric ({})", profile),
               "value", "", "examples");
  for (const evaluate::TaskResult& result : results) {
    for (const evaluate::ResultLine& line : result.lines)
      print(result.questions.task.name, name_of(line.use.metric), line.filter, line.summary,
            std::ssize(line.values));
  }
  for (const tasks::TaskGroup& group : groups) {
    for (const evaluate::GroupLine& line : evaluate::summarize(group, results))
      print(group.name, name_of(line.metric), line.filter, line.summary, line.documents);
  }
}

tasks::Profile profile_of(const TasksOptions& o) {
  return o.profile == "nemo" ? tasks::Profile::nemo : tasks::Profile::lm_eval;
}

tasks::TaskList tasks_of(const TasksOptions& o) {
  tasks::TaskList list = tasks::find_tasks(o.tasks, profile_of(o));
  for (const std::string& file : o.files) {
    tasks::Task task = tasks::read_task_file(file);
    const auto is_named = [&](const auto& other) { return other.name == task.name; };
    if (std::ranges::any_of(list.tasks, is_named) || std::ranges::any_of(list.groups, is_named))
      throw UserError("{}: another task is called {} too, and results go by name; change \"task\"",
                      file, task.name);
    list.tasks.push_back(std::move(task));
  }
  return list;
}

int run(const TasksOptions& o, bool json) {
  if (o.tasks.empty() && o.files.empty()) throw UserError("give --tasks, --task-file, or both");
  const tasks::TaskList list = tasks_of(o);
  tasks::DataFolder data(o.data);
  const auto source = store::ModelSource::open(o.checkpoint.path);
  inference::require_one_stack(source.spec(), "evaluate tasks");
  evaluate::ModelText model = model_text(source, o.checkpoint.path);
  model.context -= virtual_tokens_of(o.checkpoint, source);
  evaluate::RunRecord record{
      .model = o.checkpoint.path,
      .model_info = {{"model_dtype", o.checkpoint.dtype}, {"numerics", o.checkpoint.numerics}},
      .profile = profile_of(o),
      .options = {.shots = o.shots,
                  .limit = o.limit,
                  .seed = static_cast<uint64_t>(o.seed),
                  .resamples = o.resamples},
      .begin = wall_seconds()};
  std::vector<evaluate::Questions> questions;
  for (const tasks::Task& task : list.tasks)
    questions.push_back(evaluate::ask(task, data, record.options, model));
  auto answers = answers_of(o, source, model, questions);
  if (answers.empty()) return 0;  // rank 0, another process, tells
  ThreadPool pool(o.checkpoint.threads > 0 ? o.checkpoint.threads : available_cores());
  std::vector<evaluate::TaskResult> results;
  for (size_t i = 0; i < questions.size(); ++i)
    results.push_back(
        evaluate::judge(std::move(questions[i]), std::move(answers[i]), o.resamples, pool));
  record.end = wall_seconds();
  print_lines(results, list.groups, o.profile, json);
  if (o.output) {
    const auto folder = evaluate::write_results(*o.output, record, results, list.groups);
    fmt::print(stderr, "results and samples are in {}\n", folder.string());
  }
  return 0;
}

}  // namespace

void add_tasks(CLI::App& parent, Invocation& invocation) {
  CLI::App& c = add_command(
      parent, invocation, "tasks", "scores of known tasks, by the rules of lm-eval",
      "  megalith evaluate tasks --checkpoint runs/demo --tasks hellaswag,piqa --data sets\n"
      "  megalith evaluate tasks --checkpoint gpt2 --tasks mmlu --shots 5 --data sets --output "
      "results\n"
      "  megalith evaluate tasks --checkpoint gpt2 --tasks lambada --profile nemo --data sets "
      "--limit 100 --json\n");
  auto o = std::make_shared<TasksOptions>();
  o->checkpoint.declare(c);
  o->checkpoint.declare_adapter(c);
  c.add_option("--tasks", o->tasks, "names of tasks or groups, with commas between them")
      ->delimiter(',');
  c.add_option("--task-file", o->files,
               "a task in the YAML of lm-eval that calls no Python (repeatable)")
      ->take_all()
      ->allow_extra_args(false);
  c.add_option("--data", o->data,
               "a folder of JSONL files as `datasets` exports them: TASK.jsonl, TASK_SPLIT.jsonl "
               "or TASK/SPLIT.jsonl; task files may name their own");
  c.add_option("--profile", o->profile,
               "whose prompts and metrics: lm-eval (0.4), or nemo (its launcher's older harness)")
      ->check(CLI::IsMember({"lm-eval", "nemo"}))
      ->capture_default_str();
  c.add_option("--shots", o->shots, "examples before each question; default: the task's")
      ->check(whole_number(0, 1000));
  c.add_option("--limit", o->limit, "only so many documents, the first")->check(whole_number(1));
  c.add_option("--seed", o->seed, "of the examples that are drawn")
      ->check(whole_number(0))
      ->capture_default_str();
  c.add_option("--bootstrap", o->resamples,
               "resamples for errors that no formula gives; 0: no errors")
      ->check(whole_number(0, 100'000'000))
      ->capture_default_str();
  c.add_option("--output", o->output,
               "a folder for results and samples as lm-eval writes them (made if absent)");
  c.callback(
      [=, &invocation] { invocation.run = [=, &invocation] { return run(*o, invocation.json); }; });
}

}  // namespace megalith::apps
