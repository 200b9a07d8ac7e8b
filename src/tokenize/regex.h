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
  /// Of a tokenizer's pattern, Oniguruma's own syntax; or that of Python's module re.
  enum class Syntax { oniguruma, python };
  /// UserError, naming `where`, if Oniguruma does not take the pattern. Of a tokenizer's says in
  /// the log, once for each pattern, that a scanner would be faster.
  Regex(std::string_view pattern, std::string_view where, Syntax syntax = Syntax::oniguruma);

  struct Match {
    size_t begin;
    size_t end;
    bool is_match;
  };
  /// Lists the matches and what lies between, in order. A match may be empty, but not just behind
  /// another (in Python's syntax: another that is empty too). `text` must be UTF-8.
  /// UserError if a match takes too many steps.
  void find(std::string_view text, std::vector<Match>& matches) const;
  /// For each match the text of its groups, group 0 (all of it) first; a group that took no part is
  /// empty. UserError as find().
  std::vector<std::vector<std::string_view>> groups(std::string_view text) const;
  /// Appends the text with each match replaced.
  void append_replaced(std::string_view text, std::string_view to, std::string& out) const;

 private:
  struct Free {
    void operator()(re_pattern_buffer* regex) const;
  };
  template <typename Take>
  void search(std::string_view text, const Take& take) const;
  std::string pattern_;
  Syntax syntax_;
  std::unique_ptr<re_pattern_buffer, Free> compiled_;
};

}  // namespace megalith::tokenize
