// SPDX-License-Identifier: Apache-2.0
#include "report/json_integer.h"

#include <nlohmann/json.hpp>

namespace megalith::report {

std::optional<int64_t> integer_in(const nlohmann::ordered_json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX})
    return std::nullopt;
  return value.get<int64_t>();
}

}  // namespace megalith::report
