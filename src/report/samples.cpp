// SPDX-License-Identifier: Apache-2.0
// The lines are JSON objects of nlohmann; order of keys as in the header.
#include "report/samples.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/folder.h"
#include "base/json_fault.h"
#include "base/line_reader.h"

namespace megalith::report {

using Json = nlohmann::ordered_json;

namespace {

constexpr int64_t kMostLineBytes = int64_t{16} << 20;
constexpr int64_t kMostBytes = int64_t{128} << 20;  // all of them lie in memory, and on one page

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
                     line.contains("text") && line["step"].is_number_integer() &&
                     line["prompt"].is_string() && line["text"].is_string();
  if (!whole) throw IntegrityError(R"(not an object {{"step", "prompt", "text"}})");
  return {line["step"].get<int64_t>(), line["prompt"].get<std::string>(),
          line["text"].get<std::string>()};
}

std::vector<TextSample> read_samples(const std::filesystem::path& path) {
  require_regular(path);
  LineReader lines(path, kMostLineBytes);
  std::vector<TextSample> all;
  int64_t bytes = 0;
  for (std::string_view line; lines.next(line);) {
    try {
      all.push_back(TextSample::parse(line));
    } catch (const IntegrityError& error) {
      throw IntegrityError("{}:{}: {}", path.string(), lines.number(), error.what());
    }
    bytes += static_cast<int64_t>(line.size());
    if (bytes > kMostBytes)
      throw IntegrityError("{}: more than {} bytes of samples", path.string(), kMostBytes);
  }
  if (lines.is_too_long()) {
    throw IntegrityError("{}:{}: longer than {} bytes, which no sample is", path.string(),
                         lines.number() + 1, kMostLineBytes);
  }
  return all;
}

}  // namespace megalith::report
