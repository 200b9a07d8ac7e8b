// SPDX-License-Identifier: Apache-2.0
// The lines of samples files.
#include "base/file.h"
#include "chat_values/python_text.h"
#include "evaluate/results.h"

namespace megalith::evaluate {
namespace {

using Json = nlohmann::ordered_json;

std::string hash_of(const std::string& text) {
  return sha256(std::as_bytes(std::span<const char>(text)));
}

/// The samples files hold answers as texts.
Json pair_of(const ScoredAnswer& answer) {
  return {chat::repr_float(answer.logprob), answer.is_greedy ? "True" : "False"};
}

void put_responses(const TaskResult& result, size_t filter, size_t document, Json& json) {
  const Response& response = result.responses[document];
  Json all = Json::array(), filtered = Json::array();
  switch (result.questions.task.type) {
    case tasks::OutputType::generate_until:
      all.push_back({response.text});
      filtered.push_back(result.filtered[filter][document]);
      break;
    case tasks::OutputType::loglikelihood_rolling: {
      double sum = 0;
      for (const ScoredAnswer& part : response.scores) sum += part.logprob;
      all.push_back({chat::repr_float(sum)});
      filtered.push_back(chat::repr_float(sum));
      break;
    }
    default:
      for (const ScoredAnswer& answer : response.scores) {
        filtered.push_back(pair_of(answer));
        all.push_back(Json::array({pair_of(answer)}));
      }
  }
  json["resps"] = std::move(all);
  json["filtered_resps"] = std::move(filtered);
}

Json arguments_of(const tasks::Task& task, const tasks::AskedDocument& asked) {
  Json json = Json::object();
  for (const tasks::Asked& one : asked.asked) {
    Json& arguments = json[fmt::format("gen_args_{}", json.size())];
    if (task.type == tasks::OutputType::loglikelihood_rolling) {
      arguments = {{"arg_0", one.continuation}};
    } else if (task.type == tasks::OutputType::generate_until) {
      arguments = {{"arg_0", one.context},
                   {"arg_1",
                    {{"until", task.generation.until},
                     {"max_gen_toks", task.generation.max_tokens},
                     {"do_sample", false},
                     {"temperature", 0.0}}}};
    } else {
      arguments = {{"arg_0", one.context}, {"arg_1", one.continuation}};
    }
  }
  return json;
}

/// Pairs where lm-eval logs pairs.
Json json_of(const ResultLine& line, const MetricValue& value) {
  switch (line.use.metric) {
    case tasks::Metric::word_perplexity:
    case tasks::Metric::byte_perplexity:
    case tasks::Metric::bits_per_byte:
      return {value.value, static_cast<int64_t>(value.second)};
    case tasks::Metric::f1:
    case tasks::Metric::mcc:
      return {static_cast<int64_t>(value.value), static_cast<int64_t>(value.second)};
    default:
      return value.value;
  }
}

}  // namespace

SampleHashes sample_hashes(const TaskResult& result, size_t document) {
  const tasks::Document& doc = result.questions.documents[document];
  const tasks::AskedDocument& asked = result.questions.asked[document];
  chat::Budget budget = tasks::document_budget();
  const std::string shown = chat::to_json(
      doc.record, {.indent = "  ", .item_separator = ",", .key_separator = ": "}, budget);
  const bool is_rolling = result.questions.task.type == tasks::OutputType::loglikelihood_rolling;
  const tasks::Asked& first = asked.asked.front();
  return {hash_of(shown), hash_of(is_rolling ? first.continuation : first.context),
          hash_of(chat::str(asked.question.target, budget))};
}

std::string sample_line(const TaskResult& result, size_t filter, size_t document) {
  const Questions& of = result.questions;
  const tasks::AskedDocument& asked = of.asked[document];
  chat::Budget budget = tasks::document_budget();
  Json json = {{"doc_id", document}};
  json["doc"] = Json::parse(chat::to_json(of.documents[document].record, {}, budget));
  json["target"] = chat::str(asked.question.target, budget);
  json["arguments"] = arguments_of(of.task, asked);
  put_responses(result, filter, document, json);
  json["filter"] = of.task.filters[filter].name;
  json["metrics"] = Json::array();
  for (const tasks::MetricUse& use : of.task.metrics)
    json["metrics"].push_back(name_of(use.metric));
  const SampleHashes hashes = sample_hashes(result, document);
  json["doc_hash"] = hashes.doc;
  json["prompt_hash"] = hashes.prompt;
  json["target_hash"] = hashes.target;
  for (size_t m = 0; m < of.task.metrics.size(); ++m) {
    const ResultLine& line = result.lines[filter * of.task.metrics.size() + m];
    json[std::string(name_of(line.use.metric))] = json_of(line, line.values[document]);
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace megalith::evaluate
