// SPDX-License-Identifier: Apache-2.0
#include "evaluate/results.h"

#include <ctime>

#include "base/file.h"
#include "base/folder.h"
#include "chat_values/python_text.h"

namespace megalith::evaluate {
namespace {

using Json = nlohmann::ordered_json;

Json error_json(const std::optional<double>& error) { return error ? Json(*error) : Json("N/A"); }

std::string alias_of(const tasks::Task& task) {
  return task.alias.empty() ? task.name : task.alias;
}

Json json_of(const tasks::MetricUse& use) {
  Json json = {{"metric", name_of(use.metric)},
               {"aggregation", name_of(use.aggregation)},
               {"higher_is_better", use.higher_is_better}};
  if (use.metric != tasks::Metric::exact_match) return json;
  json["ignore_case"] = use.match.ignore_case;
  json["ignore_punctuation"] = use.match.ignore_punctuation;
  if (use.match.ignore_numbers) json["ignore_numbers"] = true;
  if (!use.match.regexes_to_ignore.empty()) json["regexes_to_ignore"] = use.match.regexes_to_ignore;
  return json;
}

void put_part(Json& json, const char* key, const tasks::Part& part) {
  if (const auto number = part.number()) json[key] = *number;
  if (part.list() != nullptr) json[key] = *part.list();
  if (part.source() != nullptr) json[key] = *part.source();
}

Json config_of(const Questions& questions) {
  const tasks::Task& task = questions.task;
  Json json = task.config.is_object() ? task.config : Json::object();
  json["task"] = task.name;
  if (!task.config.is_object()) {
    json["dataset_path"] = task.dataset;
    const auto split = [&](const char* key, const std::optional<std::string>& name) {
      if (name) json[key] = *name;
    };
    split("training_split", task.splits.training);
    split("validation_split", task.splits.validation);
    split("test_split", task.splits.test);
    split("fewshot_split", task.splits.fewshot);
    json["output_type"] = name_of(task.type);
    put_part(json, "doc_to_text", task.text);
    put_part(json, "doc_to_target", task.target);
    put_part(json, "doc_to_choice", task.choices);
    json["description"] = task.description;
    json["target_delimiter"] = task.target_delimiter;
    json["fewshot_delimiter"] = task.fewshot_delimiter;
    for (const tasks::MetricUse& use : task.metrics) json["metric_list"].push_back(json_of(use));
    if (task.type == tasks::OutputType::generate_until)
      json["generation_kwargs"] = {{"until", task.generation.until},
                                   {"max_gen_toks", task.generation.max_tokens},
                                   {"do_sample", false},
                                   {"temperature", 0.0}};
    json["metadata"] = {{"version", task.version}};
  }
  json["num_fewshot"] = questions.shots;
  return json;
}

Json result_of(const TaskResult& result) {
  const tasks::Task& task = result.questions.task;
  Json json = {{"name", task.name},
               {"alias", alias_of(task)},
               {"sample_len", result.questions.documents.size()}};
  for (const ResultLine& line : result.lines) {
    json[fmt::format("{},{}", name_of(line.use.metric), line.filter)] = line.summary.value;
    json[fmt::format("{}_stderr,{}", name_of(line.use.metric), line.filter)] =
        error_json(line.summary.error);
  }
  return json;
}

Json group_result(const tasks::TaskGroup& group, std::span<const TaskResult> results) {
  Json json = {{"alias", group.alias}, {"name", group.name}};
  Json counts = Json::object();
  for (const GroupLine& line : summarize(group, results)) {
    const std::string key = fmt::format("{},{}", name_of(line.metric), line.filter);
    json["sample_len"] = line.documents;
    json[key] = line.summary.value;
    json[fmt::format("{}_stderr,{}", name_of(line.metric), line.filter)] =
        error_json(line.summary.error);
    counts[key] = line.documents;
  }
  json["sample_count"] = std::move(counts);
  return json;
}

/// Over the hashes of all its samples.
std::string task_hash(const TaskResult& result) {
  std::string all;
  for (size_t f = 0; f < result.filtered.size(); ++f) {
    for (size_t d = 0; d < result.questions.documents.size(); ++d) {
      const SampleHashes hashes = sample_hashes(result, d);
      all += hashes.doc + hashes.prompt + hashes.target;
    }
  }
  return sha256(std::as_bytes(std::span<const char>(all)));
}

std::string date_of(double seconds) {
  const auto whole = static_cast<std::time_t>(seconds);
  std::tm local{};
  localtime_r(&whole, &local);
  const auto micros = static_cast<int64_t>((seconds - static_cast<double>(whole)) * 1e6);
  return fmt::format("{:04}-{:02}-{:02}T{:02}-{:02}-{:02}.{:06}", local.tm_year + 1900,
                     local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec,
                     micros);
}

/// Signs that a file name should not have become two underscores, as lm-eval does.
std::string folder_name(const std::string& model) {
  std::string name;
  bool was_sign = false;
  for (const char c : model) {
    const bool is_sign = std::string_view("\"<>:/\\|?*[]").find(c) != std::string_view::npos;
    if (is_sign && !was_sign) name += "__";
    if (!is_sign) name += c;
    was_sign = is_sign;
  }
  return name;
}

}  // namespace

Json results_json(const RunRecord& run, std::span<const TaskResult> results,
                  std::span<const tasks::TaskGroup> groups) {
  Json json = {{"results", Json::object()}};
  for (const TaskResult& result : results)
    json["results"][result.questions.task.name] = result_of(result);
  for (const tasks::TaskGroup& group : groups) {
    json["results"][group.name] = json["groups"][group.name] = group_result(group, results);
    json["group_subtasks"][group.name] = group.tasks;
  }
  for (const TaskResult& result : results) {
    const Questions& of = result.questions;
    const std::string& name = of.task.name;
    json["configs"][name] = config_of(of);
    json["versions"][name] = of.task.version;
    json["n-shot"][name] = of.shots;
    for (const tasks::MetricUse& use : of.task.metrics)
      json["higher_is_better"][name][std::string(name_of(use.metric))] = use.higher_is_better;
    json["n-samples"][name] = {{"original", of.total}, {"effective", of.documents.size()}};
    json["task_hashes"][name] = task_hash(result);
  }
  Json config = {{"model", "megalith"}, {"model_args", "pretrained=" + run.model}};
  for (const auto& [key, value] : run.model_info.items()) config[key] = value;
  config["profile"] = name_of(run.profile);
  config["limit"] = run.options.limit ? Json(*run.options.limit) : Json();
  config["bootstrap_iters"] = run.options.resamples;
  config["fewshot_seed"] = run.options.seed;
  json["config"] = std::move(config);
  json["date"] = run.begin;
  json["model_source"] = "megalith";
  json["model_name"] = run.model;
  json["model_name_sanitized"] = folder_name(run.model);
  json["start_time"] = run.begin;
  json["end_time"] = run.end;
  json["total_evaluation_time_seconds"] = fmt::format("{}", run.end - run.begin);
  return json;
}

std::filesystem::path write_results(const std::filesystem::path& output, const RunRecord& run,
                                    std::span<const TaskResult> results,
                                    std::span<const tasks::TaskGroup> groups) {
  const std::filesystem::path folder = output / folder_name(run.model);
  make_folders(folder);
  const std::string date = date_of(run.begin);
  for (const TaskResult& result : results) {
    std::string lines;
    for (size_t f = 0; f < result.filtered.size(); ++f)
      for (size_t d = 0; d < result.questions.documents.size(); ++d)
        lines += sample_line(result, f, d) + "\n";
    const std::string name = fmt::format("samples_{}_{}.jsonl", result.questions.task.name, date);
    write_file_durable(folder / name, lines);
  }
  write_file_durable(
      folder / fmt::format("results_{}.json", date),
      results_json(run, results, groups).dump(2, ' ', false, Json::error_handler_t::replace) +
          "\n");
  return folder;
}

}  // namespace megalith::evaluate
