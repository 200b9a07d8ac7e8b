// SPDX-License-Identifier: Apache-2.0
// What becomes of a written text before it is compared with the right answer, and the comparison.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tasks/task.h"
#include "tokenize/regex.h"

namespace megalith::tasks {

/// A filter with its expressions ready. UserError naming `task` for an expression that is none.
class TextFilter {
 public:
  TextFilter(const Filter& filter, const std::string& task);
  std::string apply(std::string text) const;

 private:
  struct Step {
    FilterStep what;
    std::shared_ptr<const tokenize::Regex> regex;
  };
  std::vector<Step> steps_;
};

/// exact_match: equal texts once what the options ignore is gone from both.
class TextMatch {
 public:
  TextMatch(const MatchOptions& options, const std::string& task);
  bool matches(const std::string& text, const std::string& right) const;

 private:
  std::string reduced(std::string text) const;
  MatchOptions options_;
  std::vector<tokenize::Regex> ignored_;
};

}  // namespace megalith::tasks
