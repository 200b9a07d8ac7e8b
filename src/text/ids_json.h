// SPDX-License-Identifier: Apache-2.0
// A file of token ids: {"ids": [...]} or a list. Any program may have written it, so nothing in it
// is trusted.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace megalith::text {

/// Largest file that is read: some fifty million ids.
inline constexpr int64_t kMaxIdsBytes = int64_t{256} << 20;

/// The ids, each from 0 to 2^31 - 1. Otherwise a UserError naming `where` and the entry. Keys other
/// than "ids" are ignored.
std::vector<int32_t> parse_ids_json(std::string_view json, std::string_view where);

}  // namespace megalith::text
