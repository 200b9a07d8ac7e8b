// SPDX-License-Identifier: Apache-2.0
// The lines are JSON objects of nlohmann; order of keys as in the header.
#include "report/samples.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_fault.h"

namespace megalith::report {

using Json = nlohmann::ordered_json;

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
  const std::string text = read_file(path);
  std::vector<TextSample> all;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    try {
      all.push_back(TextSample::parse(std::string_view(text).substr(begin, end - begin)));
    } catch (const IntegrityError& error) {
      throw IntegrityError("{}:{}: {}", path.string(), all.size() + 1, error.what());
    }
  }
  return all;
}

}  // namespace megalith::report
