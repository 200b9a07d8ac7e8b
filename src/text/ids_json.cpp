// SPDX-License-Identifier: Apache-2.0
#include "text/ids_json.h"

#include <simdjson.h>

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace megalith::text {
namespace {

constexpr size_t kMostLevels = 64;

/// The list itself, or the one value under "ids".
simdjson::dom::array list_of(simdjson::dom::element document, std::string_view where) {
  simdjson::dom::element list = document;
  if (document.is_object()) {
    int found = 0;
    for (const auto field : simdjson::dom::object(document)) {
      if (field.key != "ids") continue;
      list = field.value;
      ++found;
    }
    if (found > 1) throw UserError("{}: \"ids\" is given twice; keep one", where);
  }
  if (!list.is_array())
    throw UserError("{}: is not JSON of the form {{\"ids\": [...]}} or [...]", where);
  return simdjson::dom::array(list);
}

}  // namespace

std::vector<int32_t> parse_ids_json(std::string_view json, std::string_view where) {
  simdjson::dom::parser parser;
  simdjson::dom::element document;
  simdjson::error_code error = parser.allocate(std::max<size_t>(json.size(), 1), kMostLevels);
  if (!error) error = parser.parse(json.data(), json.size()).get(document);
  if (error) throw UserError("{}: is not JSON: {}", where, simdjson::error_message(error));
  std::vector<int32_t> ids;
  for (const simdjson::dom::element item : list_of(document, where)) {
    int64_t id = -1;
    if (item.get(id) != simdjson::SUCCESS || id < 0 || id > std::numeric_limits<int32_t>::max())
      throw UserError("{}: entry {} is not a token id", where, ids.size());
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

}  // namespace megalith::text
