// SPDX-License-Identifier: Apache-2.0
// Regular expressions of tokenizer files that no scanner here knows, by Oniguruma, which the peer
// uses too. A pattern comes from a file: its size, depth and the steps of a match are bounded.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct re_pattern_buffer;

namespace megalith::tokenize {

class Regex {
 public:
  /// UserError, naming `where`, if Oniguruma does not take the pattern. Says in the log, once for
  /// each pattern, that a scanner would be faster.
  Regex(std::string_view pattern, std::string_view where);

  struct Match {
    size_t begin;
    size_t end;
    bool is_match;
  };
  /// Lists the matches and what lies between, in order; a match may be empty. `text` must be UTF-8.
  /// UserError if a match takes too many steps.
  void find(std::string_view text, std::vector<Match>& matches) const;
  /// Appends the text with each match replaced.
  void append_replaced(std::string_view text, std::string_view to, std::string& out) const;

 private:
  struct Free {
    void operator()(re_pattern_buffer* regex) const;
  };
  std::string pattern_;
  std::unique_ptr<re_pattern_buffer, Free> compiled_;
};

}  // namespace megalith::tokenize
