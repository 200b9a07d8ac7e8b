// SPDX-License-Identifier: Apache-2.0
// "Did you mean": the known word that is the fewest typing errors away.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace megalith::config {

/// Insertions, deletions, substitutions and swaps of neighbours that turn a into b (optimal string
/// alignment distance; Damerau 1964).
int edit_distance(std::string_view a, std::string_view b);

/// The word of `known` (not empty) nearest to `word`, the first among equals. For paths ("a.b") the
/// last part alone may match too, at the cost of one edit.
std::string nearest(std::string_view word, std::span<const std::string> known);

}  // namespace megalith::config
