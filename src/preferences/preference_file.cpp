// SPDX-License-Identifier: Apache-2.0
#include "preferences/preference_file.h"

#include <algorithm>

#include "base/error.h"

namespace megalith::tune {
namespace {

Example answer_of(const ExampleLine& line, const ExampleForm& form) {
  std::vector<Example> texts = encode_line(line, form);
  if (texts.size() != 1)
    throw UserError(
        "has an answer of several turns that the chat template shows otherwise later on; answers "
        "that are compared are one text each");
  if (!has_answer(texts[0]))
    throw UserError("has nothing to learn: an answer is no token of its own");
  return std::move(texts[0]);
}

bool are_equal(const Preference& pair) {
  return pair.chosen.ids == pair.rejected.ids && pair.chosen.learned == pair.rejected.learned;
}

void cut(Example& answer, int64_t tokens) {
  const auto kept = static_cast<size_t>(std::min(answer.tokens(), tokens)) + 1;
  answer.ids.resize(kept);
  answer.learned.resize(kept);
}

}  // namespace

bool keep_length(Preference& pair, const LengthRule& rule, ExampleCounts& counts) {
  if (pair.tokens() <= rule.most_tokens) return true;
  const int64_t chosen = pair.chosen.tokens(), rejected = pair.rejected.tokens();
  switch (rule.overlong) {
    case config::Overlong::refuse:
      throw UserError(
          "has answers that are {} and {} tokens long with their prompt, and samples, which hold "
          "both, have {}; set a larger train.sequence_length, or tune.overlong: drop or truncate",
          chosen, rejected, rule.most_tokens);
    case config::Overlong::drop:
      ++counts.dropped;
      return false;
    case config::Overlong::truncate:
      break;
  }
  const int64_t half = rule.most_tokens / 2, shorter = std::min(chosen, rejected);
  const int64_t most = shorter <= half ? rule.most_tokens - shorter : half;
  cut(pair.chosen, most);
  cut(pair.rejected, most);
  const bool keeps = has_answer(pair.chosen) && has_answer(pair.rejected) && !are_equal(pair);
  ++(keeps ? counts.truncated : counts.dropped);
  return keeps;
}

std::vector<Preference> read_preferences(const std::vector<std::string>& files,
                                         const ExampleForm& form, const LengthRule& rule,
                                         ExampleCounts& counts) {
  std::vector<Preference> pairs;
  for (const std::string& file : files) {
    for_each_line(file, kMostLineBytes, [&](std::string_view line) {
      ++counts.lines;
      const PreferenceLine parsed = parse_preference_line(line);
      Preference pair{answer_of(parsed.chosen, form), answer_of(parsed.rejected, form)};
      if (are_equal(pair)) throw UserError("has two answers of equal tokens");
      if (keep_length(pair, rule, counts)) pairs.push_back(std::move(pair));
    });
  }
  require_examples(!pairs.empty(), rule, counts);
  return pairs;
}

}  // namespace megalith::tune
