// SPDX-License-Identifier: Apache-2.0
#include "tasks/task_file.h"

#include <algorithm>

#include "base/nearest.h"
#include "chat/conversation.h"
#include "tasks/task_file_parts.h"

namespace megalith::tasks {
namespace {

[[noreturn]] void refuse_key(const YamlNode& node, const std::string& key,
                             std::span<const std::string> known) {
  node.fail("no key of a task that is known; did you mean {}?", nearest(key, known));
}

class TaskReader {
 public:
  explicit TaskReader(const std::filesystem::path& file) : entries_(read_yaml(file)) {
    task_.name = file.stem().string();
    task_.config = nlohmann::ordered_json::object();
  }

  Task read(const std::string& file) {
    for (const auto& [key, node] : entries_) {
      const auto known = std::ranges::find(kKeys, key, &Key::name);
      if (known == std::end(kKeys)) refuse(key, node);
      if (node.is_null()) continue;
      if (known->take != nullptr) (this->*known->take)(node);
      task_.config[key] = node.json();
    }
    finish(file);
    return std::move(task_);
  }

 private:
  using Take = void (TaskReader::*)(const YamlNode& node);
  struct Key {
    std::string_view name;
    Take take;  // null: says nothing about scores
  };

  [[noreturn]] static void refuse(const std::string& key, const YamlNode& node) {
    for (const std::string_view known :
         {"process_docs", "process_results", "use_prompt", "group", "custom_dataset", "class",
          "doc_to_image", "doc_to_audio", "aggregate_metric_list"}) {
      if (key == known) {
        node.text();  // of a tag !function: refused as such
        node.fail("is not supported");
      }
    }
    std::vector<std::string> names;
    for (const Key& one : kKeys) names.emplace_back(one.name);
    refuse_key(node, key, names);
  }

  void take_name(const YamlNode& node) { task_.name = node.text(); }
  void take_alias(const YamlNode& node) { task_.alias = node.text(); }
  void take_dataset(const YamlNode& node) { task_.dataset = node.text(); }
  void take_training(const YamlNode& node) { task_.splits.training = node.text(); }
  void take_validation(const YamlNode& node) { task_.splits.validation = node.text(); }
  void take_test(const YamlNode& node) { task_.splits.test = node.text(); }
  void take_fewshot(const YamlNode& node) { task_.splits.fewshot = node.text(); }
  void take_text(const YamlNode& node) { task_.text = part(node); }
  void take_target(const YamlNode& node) { task_.target = part(node); }
  void take_choice(const YamlNode& node) { task_.choices = part(node); }
  void take_prefix(const YamlNode& node) { task_.gen_prefix = part(node); }
  void take_target_delimiter(const YamlNode& node) { task_.target_delimiter = node.text(); }
  void take_fewshot_delimiter(const YamlNode& node) { task_.fewshot_delimiter = node.text(); }
  void take_metrics(const YamlNode& node) {
    for (const YamlNode& one : node.items()) task_.metrics.push_back(metric_of(one));
  }
  void take_generation(const YamlNode& node) { task_.generation = generation_of(node, until_); }
  void take_filters(const YamlNode& node) {
    task_.filters.clear();
    for (const YamlNode& one : node.items()) task_.filters.push_back(filter_of(one));
  }
  void take_description(const YamlNode& node) {
    task_.description = node.text();
    task_.description_part = part(node);
  }
  void take_type(const YamlNode& node) {
    const auto found = output_type_named(node.text());
    if (!found) node.fail("{} is no output_type", node.text());
    task_.type = *found;
    has_type_ = true;
  }
  void take_shots(const YamlNode& node) {
    const auto count = node.whole();
    if (!count || *count < 0) node.fail("is no number of examples");
    task_.shots = *count;
  }
  void take_repeats(const YamlNode& node) {
    if (node.whole() != 1) node.fail("answers that are repeated are not supported");
  }
  void take_unsafe(const YamlNode& node) {
    if (node.truth()) node.fail("code that answers hold is not run");
  }
  void take_metadata(const YamlNode& node) {
    if (!node.is_map()) return;
    for (const auto& [key, value] : node.entries())
      if (key == "version") task_.version = value.number().value_or(0);
  }
  void take_files(const YamlNode& node) {
    for (const auto& [key, value] : node.entries()) {
      if (key == "trust_remote_code") continue;
      if (key != "data_files") value.fail("is not supported; data_files is");
      if (!value.is_map()) value.fail("is no map of splits and files");
      for (const auto& [split, file] : value.entries()) task_.data_files[split] = file.text();
    }
  }
  void take_fewshot_config(const YamlNode& node) {
    for (const auto& [key, value] : node.entries()) {
      if (key == "sampler") {
        const std::string name = value.text();
        if (name != "default" && name != "first_n") value.fail("{} is not supported", name);
        task_.first_shots = name == "first_n";
      } else if (key == "split") {
        task_.splits.fewshot = value.text();
      } else if (key == "samples") {
        for (const YamlNode& one : value.items()) task_.given_shots.push_back(example_of(one));
      } else {
        value.fail("is not supported");
      }
    }
  }

  Part part(const YamlNode& node) const { return part_of(node, task_.name + " " + node.path()); }

  static Document example_of(const YamlNode& node) {
    Document document;
    document.where = fmt::format("{} {}", node.file(), node.path());
    chat::Budget budget = document_budget();
    if (!node.is_map()) node.fail("is no document");
    document.record = chat::value_of(node.json(), budget);
    document.variables = *document.record.dict();
    return document;
  }

  [[noreturn]] void lacks(const std::string& file, std::string_view what) const {
    throw UserError("{}: {} has no {}", file, task_.name, what);
  }

  void finish(const std::string& file) {
    const bool writes = task_.type == OutputType::generate_until;
    if (!has_type_) task_.type = OutputType::generate_until;
    if (!task_.splits.test && !task_.splits.validation)
      lacks(file, "test_split or validation_split");
    if (!task_.text && task_.type != OutputType::loglikelihood_rolling) lacks(file, "doc_to_text");
    if (!task_.target) lacks(file, "doc_to_target");
    if (task_.type == OutputType::multiple_choice && !task_.choices) lacks(file, "doc_to_choice");
    if (task_.metrics.empty()) task_.metrics = default_metrics(task_.type);
    if ((writes || !has_type_) && !until_) task_.generation.until = {task_.fewshot_delimiter};
    for (const MetricUse& use : task_.metrics) {
      if (!is_of(use.metric, task_.type))
        throw UserError("{}: the metric {} is not one of {}", file, name_of(use.metric),
                        name_of(task_.type));
    }
  }

  static bool is_of(Metric metric, OutputType type) {
    switch (type) {
      case OutputType::loglikelihood:
        return metric == Metric::acc || metric == Metric::perplexity;
      case OutputType::loglikelihood_rolling:
        return metric == Metric::word_perplexity || metric == Metric::byte_perplexity ||
               metric == Metric::bits_per_byte;
      case OutputType::generate_until:
        return metric == Metric::exact_match;
      case OutputType::multiple_choice:
        break;
    }
    return metric < Metric::perplexity;
  }

  static constexpr Key kKeys[] = {
      {"task", &TaskReader::take_name},
      {"task_alias", &TaskReader::take_alias},
      {"tag", nullptr},
      {"dataset_path", &TaskReader::take_dataset},
      {"dataset_name", nullptr},
      {"dataset_kwargs", &TaskReader::take_files},
      {"training_split", &TaskReader::take_training},
      {"validation_split", &TaskReader::take_validation},
      {"test_split", &TaskReader::take_test},
      {"fewshot_split", &TaskReader::take_fewshot},
      {"output_type", &TaskReader::take_type},
      {"doc_to_text", &TaskReader::take_text},
      {"doc_to_target", &TaskReader::take_target},
      {"doc_to_choice", &TaskReader::take_choice},
      {"description", &TaskReader::take_description},
      {"gen_prefix", &TaskReader::take_prefix},
      {"target_delimiter", &TaskReader::take_target_delimiter},
      {"fewshot_delimiter", &TaskReader::take_fewshot_delimiter},
      {"fewshot_config", &TaskReader::take_fewshot_config},
      {"num_fewshot", &TaskReader::take_shots},
      {"metric_list", &TaskReader::take_metrics},
      {"generation_kwargs", &TaskReader::take_generation},
      {"filter_list", &TaskReader::take_filters},
      {"repeats", &TaskReader::take_repeats},
      {"unsafe_code", &TaskReader::take_unsafe},
      {"should_decontaminate", nullptr},
      {"doc_to_decontamination_query", nullptr},
      {"metadata", &TaskReader::take_metadata},
  };

  YamlEntries entries_;
  Task task_;
  bool has_type_ = false, until_ = false;
};

}  // namespace

Task read_task_file(const std::filesystem::path& file) {
  return TaskReader(file).read(file.string());
}

}  // namespace megalith::tasks
