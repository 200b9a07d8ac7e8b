// SPDX-License-Identifier: Apache-2.0
// A task as data: how a document becomes a context and what may continue it, what is right, and
// which numbers are reported. Built-in tasks (built_in.h) and files (task_file.h) are both read
// into this. Names and meanings are lm-eval's.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tasks/part.h"

namespace megalith::tasks {

/// Whose rules of prompts and metrics: lm-eval 0.4, or the older fork that NeMo's launcher has.
enum class Profile : uint8_t { lm_eval, nemo };

enum class OutputType : uint8_t {
  loglikelihood,          // of one continuation
  multiple_choice,        // of several, of which one is right
  loglikelihood_rolling,  // of a whole text
  generate_until          // a text is written
};

enum class Metric : uint8_t {
  acc,
  acc_norm,
  acc_bytes,
  acc_mutual_info,
  exact_match,
  f1,
  mcc,
  brier_score,
  perplexity,
  word_perplexity,
  byte_perplexity,
  bits_per_byte
};

/// From the values of documents to one number.
enum class Aggregation : uint8_t {
  mean,
  median,
  nanmean,
  perplexity,
  weighted_perplexity,
  bits_per_byte,
  nats_per_byte,  // as NeMo's fork calls bits
  brier_score,    // a mean without an error
  f1,
  mcc
};

/// What acc_norm compares: log-probabilities over the lengths of choices, or what the context adds
/// to a choice's own.
enum class Norm : uint8_t { characters, tokens, gain };

/// How exact_match looks at both sides.
struct MatchOptions {
  std::vector<std::string> regexes_to_ignore = {};
  bool ignore_case = false, ignore_punctuation = false, ignore_numbers = false;
};

struct MetricUse {
  Metric metric = Metric::acc;
  Aggregation aggregation = Aggregation::mean;
  bool higher_is_better = true;
  MatchOptions match = {};
};

/// What is made of a written text before it is compared.
struct FilterStep {
  enum class Kind : uint8_t {
    regex,
    take_first,
    remove_whitespace,
    lowercase,
    uppercase,
    map
  } kind = Kind::take_first;
  std::string pattern = "#### (\\-?[0-9\\.\\,]+)";  // of regex
  int64_t group_select = 0;                         // which of its matches; negative: from the end
  std::string fallback = "[invalid]";
  std::vector<std::pair<std::string, std::string>> mapping = {};
  std::optional<std::string> default_value = {};
};
struct Filter {
  std::string name = "none";
  std::vector<FilterStep> steps = {};
};

struct Generation {
  std::vector<std::string> until = {};
  int64_t max_tokens = 256;
};

struct Splits {
  std::optional<std::string> training = {}, validation = {}, test = {}, fewshot = {};
  /// Of documents that are asked.
  const std::string& evaluated() const { return test ? *test : *validation; }
};

/// Only documents whose field has this value.
struct Selection {
  std::string field = {}, value = {};
};

/// Makes a document's further fields.
using Preparation = void (*)(Document& document);
/// Makes documents of rows (several of one article).
using Grouping = std::vector<Document> (*)(std::vector<Document> rows);

struct Task {
  std::string name = {};
  std::string alias = {};               // how it is shown; empty: the name
  std::vector<std::string> files = {};  // what its data may be called beside its name
  /// Where it is from, for people.
  std::string dataset = {};
  std::map<std::string, std::string> data_files = {};  // by split, where the task names them
  Splits splits = {};
  std::optional<Selection> only = {};
  OutputType type = OutputType::multiple_choice;
  Grouping group = nullptr;
  Preparation prepare = nullptr;

  std::string description = {};  // a field or a template too
  Part description_part = {};    // of it, if it is not empty
  Part text = {}, target = {}, choices = {}, gen_prefix = {};
  std::string target_delimiter = " ", fewshot_delimiter = "\n\n";
  /// The context of a choice's own probability, for acc_mutual_info and Norm::gain.
  std::string unconditional = {};

  int64_t shots = 0;
  bool first_shots = false;  // the first of the split, not drawn ones
  std::vector<Document> given_shots = {};
  std::vector<MetricUse> metrics = {};
  Norm norm = Norm::characters;
  /// Of rolling tasks: the field whose words and bytes are counted; empty: the text itself.
  std::string counted = {};
  /// Documents come in the order of Random(42), which --limit then cuts.
  bool shuffled = false;
  std::vector<Filter> filters = {Filter{}};
  Generation generation = {};
  double version = 0;
  nlohmann::ordered_json config;  // as a file gave it; null of built-in ones
};

/// Results of several tasks as one, weighted by documents.
struct TaskGroup {
  std::string name = {}, alias = {};
  std::vector<std::string> tasks = {};  // leaves
  std::vector<Metric> metrics = {};
  double version = 0;
};

std::string_view name_of(Profile profile);
std::string_view name_of(OutputType type);
std::string_view name_of(Metric metric);
std::string_view name_of(Aggregation aggregation);
std::optional<Metric> metric_named(std::string_view name);
std::optional<Aggregation> aggregation_named(std::string_view name);
std::optional<OutputType> output_type_named(std::string_view name);
/// What a metric is when nothing else is said.
MetricUse default_use(Metric metric);
/// What a type of task reports when nothing else is said.
std::vector<MetricUse> default_metrics(OutputType type);

}  // namespace megalith::tasks
