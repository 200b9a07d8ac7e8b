// SPDX-License-Identifier: Apache-2.0
#include "apps/evaluate_lines.h"

#include "base/error.h"
#include "base/line_reader.h"
#include "text/score_line.h"

namespace megalith::apps {
namespace {

/// Of lines to score their ids lie in memory.
constexpr int64_t kMostLinesBytes = int64_t{1} << 30;

/// A line to score: more than any context holds, and its tree of JSON still small.
constexpr int64_t kMostLineBytes = int64_t{16} << 20;

}  // namespace

void for_each_line(const std::string& input, FunctionRef<void(std::string_view line)> judge) {
  int64_t bytes = 0, number = 0;
  const auto judge_next = [&](std::string_view line) {
    ++number;
    try {
      bytes += static_cast<int64_t>(line.size());
      if (bytes > kMostLinesBytes) throw UserError("more than {} bytes to score", kMostLinesBytes);
      judge(line);
    } catch (const UserError& error) {
      throw UserError("{}:{}: {}", input, number, error.what());
    }
  };
  LineReader reader(input, kMostLineBytes);
  for (std::string_view line; reader.next(line);) judge_next(line);
  if (reader.is_too_long()) {
    throw UserError("{}:{}: a line longer than {} bytes", input, reader.number() + 1,
                    kMostLineBytes);
  }
  if (!reader.rest().empty()) judge_next(reader.rest());  // the last one may lack its end
}

namespace {

/// With virtual tokens in place of marks, if there are any.
inference::Reading reading_of(text::ScoreLine& content, const store::ModelSource& source,
                              const adapters::PromptMarks* marks) {
  if ((content.target || content.target_ids) && !source.spec().is_encoder_decoder())
    throw UserError("has a target, which encoder-decoders predict, and this model has one stack");
  inference::Reading reading{std::move(content.ids), std::move(content.type_ids)};
  if (content.text) {
    const text::Tokenizer& tokenizer =
        marks != nullptr ? marks->tokenizer() : source.require_tokenizer();
    const std::optional<std::string_view> pair = content.pair;
    text::Encoding encoding = tokenizer.encode_typed(*content.text, pair, true);
    // A model that knows one type or none has the same row for all.
    if (source.spec().embedding.token_types < 2) encoding.type_ids.clear();
    reading = {std::move(encoding.ids), std::move(encoding.type_ids)};
  }
  if (marks != nullptr) marks->expand(reading.ids);
  return reading;
}

}  // namespace

inference::Reading reading_of_line(std::string_view line, const store::ModelSource& source,
                                   const adapters::PromptMarks* marks) {
  text::ScoreLine content = text::parse_score_line(line);
  return reading_of(content, source, marks);
}

TargetReading target_of_line(std::string_view line, const store::ModelSource& source,
                             const adapters::PromptMarks* marks) {
  text::ScoreLine content = text::parse_score_line(line);
  if (!content.type_ids.empty())
    throw UserError("has \"type_ids\", and this model has no types of tokens");
  TargetReading reading{reading_of(content, source, marks).ids, {}};
  if (content.target_ids) {
    reading.target = std::move(*content.target_ids);
  } else if (content.target) {
    reading.target = source.require_tokenizer().encode(*content.target, true);
  } else {
    throw UserError("has neither \"target\" nor \"target_ids\", which an encoder-decoder predicts");
  }
  return reading;
}

std::vector<inference::Reading> readings_of(const store::ModelSource& source,
                                            const std::string& input) {
  std::vector<inference::Reading> readings;
  for_each_line(input, [&](std::string_view line) {
    inference::Reading reading = reading_of_line(line, source);
    inference::check_readable(source.spec(), reading);
    readings.push_back(std::move(reading));
  });
  return readings;
}

}  // namespace megalith::apps
