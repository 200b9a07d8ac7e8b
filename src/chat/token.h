// SPDX-License-Identifier: Apache-2.0
// A template as tokens. Text outside of tags is one token; white space that the tags ask to cut
// ("-", and as Hugging Face sets Jinja the first line end behind a block and the blanks before one)
// is gone already.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat_values/value.h"

namespace megalith::chat {

enum class TokenKind : uint8_t {
  data,         // text to print as it is
  print_begin,  // {{
  print_end,
  block_begin,  // {%
  block_end,
  name,
  text,  // a literal, its escapes resolved
  whole,
  real,
  sign,  // an operator or a bracket
  end    // of the template
};

struct Token {
  TokenKind kind;
  uint32_t at;       // offset in the source
  std::string text;  // of data, names, literals and signs
  int64_t whole = 0;
  double real = 0;
};

/// A Fault with a place of its own.
class SyntaxFault : public Fault {
 public:
  template <typename... Args>
  explicit SyntaxFault(uint32_t at, fmt::format_string<Args...> format, Args&&... args)
      : Fault(format, std::forward<Args>(args)...), at_(at) {}
  uint32_t at() const { return at_; }

 private:
  uint32_t at_;
};

/// The source as Jinja reads it: line ends are \n, and one at the end of the file is none unless it
/// is kept.
std::string normalized_source(std::string_view source, bool keeps_last);
/// `source` is normalized UTF-8. Ends with a token `end`. SyntaxFault for what is no template.
/// `trims_blocks`: white space around blocks is cut as above.
std::vector<Token> tokenize(std::string_view source, bool trims_blocks);
/// A literal's content with Python's escapes resolved.
std::string resolve_escapes(std::string_view content, uint32_t at);
/// How messages call a token.
std::string describe(const Token& token);

}  // namespace megalith::chat
