// SPDX-License-Identifier: Apache-2.0
// The folder of the candidates of a search that are run: a recipe for each, and what its runs
// (megalith bench train RECIPE --json) printed. Runs may be made anywhere.
//
//   NAME.yaml      the recipe; NAME says the layout
//   NAME.1.jsonl   what a run printed; further ones .2.jsonl and so on
//   NAME.1.err     its messages; without figures the program's last one is why
#pragma once

#include <filesystem>
#include <string>

#include "config/recipe.h"
#include "search/confirmation.h"

namespace megalith::apps {

class TrialFolder {
 public:
  /// Makes it where it is missing.
  explicit TrialFolder(std::filesystem::path folder);

  static std::string name_of(const search::LayoutPoint& point);
  std::filesystem::path file(const search::LayoutPoint& point, const std::string& ending) const;
  /// Writes the candidate's recipe. UserError when results lie there that are of another.
  void put(const config::Recipe& recipe, const search::LayoutPoint& point) const;
  /// Removes what earlier runs of it left.
  void forget(const search::LayoutPoint& point) const;
  /// What its runs say: the median of their samples, of those alone that other programs disturbed
  /// little where there are some; or why there are none. Neither when nothing has run or run to its
  /// end. UserError naming the file that no such run printed.
  void read(search::Trial& trial) const;
  /// What the program said of a run that failed; empty: nothing.
  std::string cause(const search::LayoutPoint& point) const;

  const std::filesystem::path& path() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

/// Samples with less than this of the cores' time taken by other programs count alone.
inline constexpr double kQuiet = 0.1;

}  // namespace megalith::apps
