// SPDX-License-Identifier: Apache-2.0
#include "evaluate/judgement.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "characters/utf8.h"
#include "chat_values/python_text.h"

namespace megalith::evaluate {
namespace {

/// Code points.
double length_of(std::string_view text) {
  const auto begins = [](char c) { return (c & 0xC0) != 0x80; };
  return static_cast<double>(std::ranges::count_if(text, begins));
}

/// len(re.split(r"\s+", text)): runs of white space and one more.
double words_of(std::string_view text) {
  double words = 1;
  bool was_space = false;
  for (size_t at = 0; at < text.size();) {
    const auto next = characters::read_utf8(text.data() + at);
    const bool is_space = chat::is_space(next.code);
    words += is_space && !was_space ? 1 : 0;
    was_space = is_space;
    at += next.length;
  }
  return words;
}

int64_t best_of(const std::vector<double>& scores) {  // the first of equals
  return std::ranges::max_element(scores) - scores.begin();
}

bool has(const std::vector<int64_t>& list, int64_t one) {
  return std::ranges::find(list, one) != list.end();
}

/// sum_i (p_i - [i is right])^2 of the probabilities among the choices.
double brier_score(const std::vector<double>& scores, int64_t right) {
  const double most = *std::ranges::max_element(scores);
  double sum = 0, result = 0;
  for (const double score : scores) sum += std::exp(score - most);
  for (size_t i = 0; i < scores.size(); ++i) {
    const double p = std::exp(scores[i] - most) / sum;
    const double wanted = std::cmp_equal(i, right) ? 1 : 0;
    result += (p - wanted) * (p - wanted);
  }
  return result;
}

}  // namespace

Judge::Judge(const tasks::Task& task, const tasks::Question& first)
    : task_(task), has_many_right_(first.target.sequence() != nullptr) {
  for (const tasks::Filter& filter : task.filters) filters_.emplace_back(filter, task.name);
  for (const tasks::MetricUse& use : task.metrics) matches_.emplace_back(use.match, task.name);
}

void Judge::check(const tasks::Document& document, const tasks::Question& question) const {
  if (task_.type == tasks::OutputType::multiple_choice ||
      (task_.type == tasks::OutputType::generate_until && !question.choices.empty()))
    right_choices(document, question);
}

std::vector<int64_t> Judge::right_choices(const tasks::Document& document,
                                          const tasks::Question& question) const {
  const int64_t count = std::ssize(question.choices);
  std::vector<int64_t> right;
  const auto add = [&](const chat::Value& value) {
    std::optional<int64_t> number = value.whole();
    if (value.is_text()) {
      const auto found = std::ranges::find(question.choices, value.bytes());
      if (found != question.choices.end()) number = found - question.choices.begin();
    }
    if (!number || *number < 0 || *number >= count) {
      chat::Budget budget = tasks::document_budget();
      throw UserError("{}: the right answer is {}, and {} has choices 0 to {}", document.where,
                      chat::repr(value, budget), task_.name, count - 1);
    }
    right.push_back(*number);
  };
  if (question.text_number) {
    add(chat::Value::integer(*question.text_number));
  } else if (const chat::Sequence* const list = question.target.sequence()) {
    for (const chat::Value& one : list->items) add(one);
  } else {
    add(question.target);
  }
  if (right.empty()) throw UserError("{}: there is no right answer", document.where);
  return right;
}

Judged Judge::judge_choices(const tasks::Document& document, const tasks::AskedDocument& asked,
                            const Response& response) const {
  const std::vector<std::string>& choices = asked.question.choices;
  const std::vector<int64_t> right = right_choices(document, asked.question);
  const size_t count = choices.size();
  std::vector<double> scores(count), by_length(count), by_bytes(count), gain(count);
  for (size_t i = 0; i < count; ++i) {
    scores[i] = response.scores[i].logprob;
    const auto tokens = static_cast<double>(response.tokens[i]);
    by_length[i] = scores[i] / (task_.norm == tasks::Norm::tokens ? tokens : length_of(choices[i]));
    by_bytes[i] = scores[i] / static_cast<double>(choices[i].size());
    if (response.scores.size() > count) gain[i] = scores[i] - response.scores[count + i].logprob;
  }
  const auto is_right = [&](const std::vector<double>& by) {
    return MetricValue{has(right, best_of(by)) ? 1.0 : 0.0};
  };
  const auto is_greedy = [&](int64_t i) {
    return response.scores[static_cast<size_t>(i)].is_greedy;
  };
  Judged judged;
  for (const tasks::MetricUse& use : task_.metrics) {
    MetricValue value;
    switch (use.metric) {
      case tasks::Metric::acc:
        value = is_right(scores);
        break;
      case tasks::Metric::acc_norm:
        value = is_right(task_.norm == tasks::Norm::gain ? gain : by_length);
        break;
      case tasks::Metric::acc_bytes:
        value = is_right(by_bytes);
        break;
      case tasks::Metric::acc_mutual_info:
        value = is_right(gain);
        break;
      case tasks::Metric::exact_match:
        value.value = std::ranges::any_of(right, is_greedy) ? 1 : 0;
        break;
      case tasks::Metric::brier_score:
        value.value = brier_score(scores, right[0]);
        break;
      default:  // f1, mcc
        value = {static_cast<double>(right[0]), static_cast<double>(best_of(scores))};
        break;
    }
    judged.values.push_back(value);
  }
  return judged;
}

bool Judge::matches(const tasks::Document& document, size_t metric, const std::string& text,
                    const tasks::Question& question) const {
  const tasks::TextMatch& match = matches_[metric];
  chat::Budget budget = tasks::document_budget();
  const auto is_it = [&](const chat::Value& right) {
    return match.matches(text, chat::str(right, budget));
  };
  if (!question.choices.empty()) {
    const auto is_choice = [&](int64_t number) {
      return match.matches(text, question.choices[static_cast<size_t>(number)]);
    };
    return std::ranges::any_of(right_choices(document, question), is_choice);
  }
  const chat::Sequence* const list = question.target.sequence();
  if (has_many_right_ && list != nullptr) return std::ranges::any_of(list->items, is_it);
  return is_it(question.target);
}

Judged Judge::judge_text(const tasks::Document& document, const tasks::AskedDocument& asked,
                         const Response& response, size_t filter) const {
  Judged judged{.filtered = filters_[filter].apply(response.text)};
  for (size_t i = 0; i < task_.metrics.size(); ++i)
    judged.values.push_back({matches(document, i, judged.filtered, asked.question) ? 1.0 : 0.0});
  return judged;
}

Judged Judge::judge(const tasks::Document& document, const tasks::AskedDocument& asked,
                    const Response& response, size_t filter) const {
  if (task_.type == tasks::OutputType::multiple_choice)
    return judge_choices(document, asked, response);
  if (task_.type == tasks::OutputType::generate_until)
    return judge_text(document, asked, response, filter);
  const bool is_rolling = task_.type == tasks::OutputType::loglikelihood_rolling;
  Judged judged;
  double logprob = 0;
  for (const ScoredAnswer& part : response.scores) logprob += part.logprob;
  const std::string& text =
      task_.counted.empty() ? asked.asked[0].continuation : document.text(task_.counted);
  for (const tasks::MetricUse& use : task_.metrics) {
    if (!is_rolling) {
      const double greedy = response.scores[0].is_greedy ? 1 : 0;
      judged.values.push_back({use.metric == tasks::Metric::acc ? greedy : logprob});
    } else {
      const bool by_word = use.metric == tasks::Metric::word_perplexity;
      judged.values.push_back(
          {logprob, by_word ? words_of(text) : static_cast<double>(text.size())});
    }
  }
  return judged;
}

}  // namespace megalith::evaluate
