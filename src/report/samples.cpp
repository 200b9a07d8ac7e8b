// SPDX-License-Identifier: Apache-2.0
// The lines are JSON objects of nlohmann; order of keys as in the header.
#include "report/samples.h"

#include <deque>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/folder.h"
#include "base/json_fault.h"
#include "base/json_number.h"
#include "base/line_reader.h"

namespace megalith::report {

using Json = nlohmann::ordered_json;

namespace {

constexpr int64_t kLongestSampleBytes = int64_t{16} << 20;

}  // namespace

std::string TextSample::to_json_line() const {
  Json line;
  line["step"] = step;
  line["prompt"] = prompt;
  line["text"] = text;
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

TextSample TextSample::parse(std::string_view text) {
  if (const auto fault = json_fault(text)) throw IntegrityError("{}", *fault);
  const Json line = Json::parse(text);
  const bool whole = line.is_object() && line.contains("step") && line.contains("prompt") &&
                     line.contains("text") && line["prompt"].is_string() &&
                     line["text"].is_string();
  const auto step = whole ? whole_number_in(line["step"]) : std::nullopt;
  if (!step) throw IntegrityError(R"(not an object {{"step", "prompt", "text"}})");
  return {*step, line["prompt"].get<std::string>(), line["text"].get<std::string>()};
}

SampleTexts read_samples(const std::filesystem::path& path, int64_t most_bytes) {
  require_regular(path);
  LineReader lines(path, kLongestSampleBytes);
  std::deque<std::pair<TextSample, int64_t>> newest;  // with the bytes of their lines
  SampleTexts texts;
  int64_t bytes = 0;
  for (std::string_view line; lines.next(line);) {
    const auto size = static_cast<int64_t>(line.size());
    try {
      newest.emplace_back(TextSample::parse(line), size);
    } catch (const IntegrityError& error) {
      throw IntegrityError("{}:{}: {}", path.string(), lines.number(), error.what());
    }
    for (bytes += size; bytes > most_bytes; ++texts.earlier) {
      bytes -= newest.front().second;
      newest.pop_front();
    }
  }
  if (lines.is_too_long()) {
    throw IntegrityError("{}:{}: longer than {} bytes, which no sample is", path.string(),
                         lines.number() + 1, kLongestSampleBytes);
  }
  for (auto& [sample, size] : newest) texts.newest.push_back(std::move(sample));
  return texts;
}

}  // namespace megalith::report
