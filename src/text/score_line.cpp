// SPDX-License-Identifier: Apache-2.0
#include "text/score_line.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_fault.h"
#include "base/json_number.h"

namespace megalith::text {
namespace {

using Json = nlohmann::json;

std::vector<int32_t> numbers(const Json& json, const char* key, const char* what) {
  std::vector<int32_t> ids;
  if (!json[key].is_array()) throw UserError("\"{}\" is not a list", key);
  for (const Json& entry : json[key]) {
    const auto id = whole_number_in(entry);
    if (!id || *id < 0 || *id > std::numeric_limits<int32_t>::max())
      throw UserError("entry {} of \"{}\" is not a {}", ids.size(), key, what);
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

}  // namespace

ScoreLine parse_score_line(std::string_view line) {
  if (const auto fault = json_fault(line)) throw UserError("{}", *fault);
  const Json json = Json::parse(line);
  if (!json.is_object()) throw UserError("is not a JSON object with \"text\" or \"ids\"");
  ScoreLine result;
  if (json.contains("target_ids")) {
    result.target_ids = numbers(json, "target_ids", "token id");
  } else if (json.contains("target")) {
    if (!json["target"].is_string()) throw UserError("has a \"target\" that is not a text");
    result.target = json["target"].get<std::string>();
  }
  if (json.contains("ids")) {
    result.ids = numbers(json, "ids", "token id");
    if (json.contains("type_ids")) result.type_ids = numbers(json, "type_ids", "type of a token");
    return result;
  }
  if (!json.contains("text") || !json["text"].is_string())
    throw UserError("has neither \"text\" nor \"ids\"");
  result.text = json["text"].get<std::string>();
  if (!json.contains("pair")) return result;
  if (!json["pair"].is_string()) throw UserError("has a \"pair\" that is not a text");
  result.pair = json["pair"].get<std::string>();
  return result;
}

}  // namespace megalith::text
