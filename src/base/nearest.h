// SPDX-License-Identifier: Apache-2.0
// "Did you mean": the known word that is the fewest typing errors away.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"

namespace megalith {
namespace detail {

// No key is near this long; the table stays small whatever a file holds.
inline constexpr size_t kLongestWord = 200;

inline std::string_view last_part(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

}  // namespace detail

/// Insertions, deletions, substitutions and swaps of neighbours that turn a into b (optimal string
/// alignment distance; Damerau 1964).
inline int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> before_last(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int substitution = last[j - 1] + (a[i - 1] != b[j - 1] ? 1 : 0);
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        now[j] = std::min(now[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

/// The word of `known` (not empty) nearest to `word`, the first among equals. For paths ("a.b") the
/// last part alone may match too, at the cost of one edit.
inline std::string nearest(std::string_view word, std::span<const std::string> known) {
  MEGA_CHECK(!known.empty());
  word = word.substr(0, detail::kLongestWord);
  const auto cost = [&](const std::string& key) {
    return std::min(edit_distance(word, key),
                    1 + edit_distance(detail::last_part(word), detail::last_part(key)));
  };
  return *std::min_element(known.begin(), known.end(),
                           [&](const auto& a, const auto& b) { return cost(a) < cost(b); });
}

}  // namespace megalith
