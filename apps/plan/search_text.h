// SPDX-License-Identifier: Apache-2.0
// The result of a search over layouts as text, table and JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "config/recipe.h"
#include "search/layout_search.h"

namespace megalith::apps {

struct SearchReport {
  const config::Recipe& recipe;
  const engine::Settings& settings;
  const clusters::Cluster& cluster;
  const search::SearchResult& result;
};

inline double in_gib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

/// Of a table for people: the names of its columns with the end of the line, and a candidate.
std::string ranking_header();
std::string ranking_row(const search::Candidate& candidate);
/// {"layout", "step_seconds", "mfu", "memory_bytes", ...}
nlohmann::ordered_json candidate_json(const SearchReport& report,
                                      const search::Candidate& candidate);

/// A screenful for people.
std::string search_text(const SearchReport& report);
/// One line of names, then one per candidate, best first.
std::string search_csv(const SearchReport& report);
/// {"candidates": [{"layout", "step_seconds", "mfu", "memory_bytes", "recipe", ...}], "refused",
/// "seconds", ...}
nlohmann::ordered_json search_json(const SearchReport& report);

}  // namespace megalith::apps
