// SPDX-License-Identifier: Apache-2.0
#include "text/score_line.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_fault.h"
#include "base/json_number.h"

namespace megalith::text {

std::variant<std::string, std::vector<int32_t>> parse_score_line(std::string_view line) {
  if (const auto fault = json_fault(line)) throw UserError("{}", *fault);
  const auto json = nlohmann::json::parse(line);
  if (!json.is_object()) throw UserError("is not a JSON object with \"text\" or \"ids\"");
  if (json.contains("ids")) {
    std::vector<int32_t> ids;
    if (!json["ids"].is_array()) throw UserError("\"ids\" is not a list");
    for (const auto& entry : json["ids"]) {
      const auto id = whole_number_in(entry);
      if (!id || *id < 0 || *id > std::numeric_limits<int32_t>::max())
        throw UserError("entry {} of \"ids\" is not a token id", ids.size());
      ids.push_back(static_cast<int32_t>(*id));
    }
    return ids;
  }
  if (!json.contains("text") || !json["text"].is_string())
    throw UserError("has neither \"text\" nor \"ids\"");
  return json["text"].get<std::string>();
}

}  // namespace megalith::text
