// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>

#include "characters/utf8.h"
#include "chat/token.h"
#include "chat_values/python_text.h"

namespace megalith::chat {
namespace {

constexpr size_t kNowhere = std::string_view::npos;

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_decimal(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  Lexer(std::string_view source, bool trims) : source_(source), trims_(trims) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) outside();
    add(TokenKind::end);
    return std::move(tokens_);
  }

 private:
  char look(size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  bool here(std::string_view what) const { return source_.substr(at_).starts_with(what); }
  Token& add(TokenKind kind, std::string text = "") {
    tokens_.push_back({kind, static_cast<uint32_t>(at_), std::move(text)});
    return tokens_.back();
  }
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw SyntaxFault(static_cast<uint32_t>(at_), format, std::forward<Args>(args)...);
  }

  void skip_space() {
    while (at_ < source_.size()) {
      const auto point = characters::read_utf8(source_.data() + at_);
      if (!is_space(point.code)) return;
      at_ += point.length;
    }
  }

  size_t next_tag() const {
    size_t tag = source_.find('{', at_);
    while (tag != kNowhere && (tag + 1 == source_.size() ||
                               std::string_view("{%#").find(source_[tag + 1]) == kNowhere))
      tag = source_.find('{', tag + 1);
    return tag;
  }

  // Text up to the next tag, then the tag.
  void outside() {
    const size_t tag = next_tag();
    if (tag == kNowhere) {
      add(TokenKind::data, std::string(source_.substr(at_)));
      at_ = source_.size();
      return;
    }
    const char type = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    data(source_.substr(at_, tag - at_), type, sign);
    at_ = tag + 2 + (sign == '-' || sign == '+' ? 1 : 0);
    if (type == '#') return comment(tag);
    if (type == '%' && raw(tag)) return;
    inside(type == '{', tag);
  }

  void data(std::string_view text, char type, char sign) {
    if (sign == '-') {
      text = strip(text, Side::right);
    } else if (trims_ && sign != '+' && type != '{') {
      const size_t line = text.rfind('\n') + 1;  // 0 if there is none
      const bool begins = line > 0 || line_starting_;
      if (begins && strip(text.substr(line), Side::left).empty()) text = text.substr(0, line);
    }
    if (!text.empty()) add(TokenKind::data, std::string(text));
  }

  // Behind a tag that ended with `sign` before its bracket: what sign and trim_blocks take away.
  void after(char sign, bool trims_line) {
    const size_t begin = at_;
    if (sign == '-')
      skip_space();
    else if (trims_ && sign != '+' && trims_line && look() == '\n')
      ++at_;
    line_starting_ = at_ > begin && source_[at_ - 1] == '\n';
  }

  void comment(size_t tag) {
    const size_t end = source_.find("#}", at_);
    if (end == kNowhere) {
      at_ = tag;
      fail("the comment has no end");
    }
    const char sign = end > at_ ? source_[end - 1] : '\0';
    at_ = end + 2;
    after(sign, true);
  }

  // {% raw %} up to {% endraw %} is text.
  bool raw(size_t tag) {
    const size_t back = at_;
    skip_space();
    if (!here("raw")) {
      at_ = back;
      return false;
    }
    at_ += 3;
    skip_space();
    const bool cuts = here("-%}");
    if (!cuts && !here("%}")) {
      at_ = back;
      return false;
    }
    at_ += cuts ? 3 : 2;
    if (cuts) skip_space();
    line_starting_ = source_[at_ - 1] == '\n';
    const size_t begin = at_;
    for (size_t end = begin; (end = source_.find("{%", end)) != kNowhere; ++end) {
      at_ = end + 2;
      const char sign = look();
      if (sign == '-' || sign == '+') ++at_;
      skip_space();
      if (!here("endraw")) continue;
      at_ += 6;
      skip_space();
      const char end_sign = look();
      if (end_sign == '-' || end_sign == '+') ++at_;
      if (!here("%}")) continue;
      const size_t next = at_ + 2;
      at_ = begin;
      data(source_.substr(begin, end - begin), '%', sign);
      at_ = next;
      after(end_sign, true);
      return true;
    }
    at_ = tag;
    fail("the raw block has no end");
  }

  // The tokens of a tag up to its end.
  void inside(bool prints, size_t tag) {
    const std::string_view close = prints ? "}}" : "%}";
    const size_t content = std::exchange(at_, tag);
    add(prints ? TokenKind::print_begin : TokenKind::block_begin);
    at_ = content;
    std::string open;  // brackets
    while (true) {
      skip_space();
      if (at_ >= source_.size()) {
        at_ = tag;
        fail("the tag has no end ({})", close);
      }
      if (open.empty()) {
        const char sign = look() == '-' || (!prints && look() == '+') ? look() : '\0';
        if (source_.substr(at_ + (sign ? 1 : 0)).starts_with(close)) {
          add(prints ? TokenKind::print_end : TokenKind::block_end);
          at_ += sign ? 3 : 2;
          return after(sign, !prints);
        }
      }
      token(open);
    }
  }

  void token(std::string& open) {
    const char c = look();
    if (is_decimal(c)) return number();
    if (is_name_start(c)) {
      size_t length = 1;
      while (is_name_start(look(length)) || is_decimal(look(length))) ++length;
      add(TokenKind::name, std::string(source_.substr(at_, length)));
      at_ += length;
    } else if (c == '\'' || c == '"') {
      literal(c);
    } else {
      sign(open);
    }
  }

  void literal(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail("the text has no end ({})", quote);
    Token& made = add(TokenKind::text);
    made.text = resolve_escapes(source_.substr(at_ + 1, end - at_ - 1), made.at);
    at_ = end + 1;
  }

  // Digits with single underscores between them.
  size_t digits_from(size_t begin) const {
    size_t end = begin;
    while (end < source_.size() &&
           (is_decimal(source_[end]) || (source_[end] == '_' && end > begin &&
                                         end + 1 < source_.size() && is_decimal(source_[end + 1]))))
      ++end;
    return end;
  }

  void number() {
    size_t end = digits_from(at_);
    bool is_real = false;
    const bool may_be_real = at_ == 0 || source_[at_ - 1] != '.';
    if (may_be_real && end + 1 < source_.size() && source_[end] == '.' &&
        is_decimal(source_[end + 1])) {
      end = digits_from(end + 1);
      is_real = true;
    }
    if (may_be_real && end < source_.size() && (source_[end] | 0x20) == 'e') {
      size_t exponent = end + 1;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-'))
        ++exponent;
      if (exponent < source_.size() && is_decimal(source_[exponent])) {
        end = digits_from(exponent);
        is_real = true;
      }
    }
    std::string digits(source_.substr(at_, end - at_));
    std::erase(digits, '_');
    if (!is_real && digits.size() > 1 && digits[0] == '0' &&
        digits.find_first_not_of('0') != kNowhere)
      fail("a number begins with 0: {}", digits.substr(0, 40));
    if (digits == "0" && end < source_.size() && is_name_start(source_[end]))
      fail("binary, octal and hexadecimal numbers are not supported");
    Token& made = add(is_real ? TokenKind::real : TokenKind::whole);
    const char* last = digits.data() + digits.size();
    const auto result = is_real ? std::from_chars(digits.data(), last, made.real)
                                : std::from_chars(digits.data(), last, made.whole);
    if (result.ec != std::errc()) fail("the number {} is too large", digits.substr(0, 40));
    at_ = end;
  }

  void sign(std::string& open) {
    static constexpr std::array<std::string_view, 26> kSigns = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const auto found = std::find_if(kSigns.begin(), kSigns.end(),
                                    [&](std::string_view sign) { return here(sign); });
    if (found == kSigns.end()) {
      const auto point = characters::read_utf8(source_.data() + at_);
      fail("unexpected character '{}'", source_.substr(at_, point.length));
    }
    const std::string_view text = *found;
    if (text == "(" || text == "[" || text == "{") {
      open += text == "(" ? ')' : text == "[" ? ']' : '}';
    } else if (text == ")" || text == "]" || text == "}") {
      if (open.empty() || open.back() != text[0]) fail("unexpected '{}'", text);
      open.pop_back();
    }
    add(TokenKind::sign, std::string(text));
    at_ += text.size();
  }

  std::string_view source_;
  bool trims_;
  size_t at_ = 0;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, bool trims_blocks) {
  return Lexer(source, trims_blocks).run();
}

}  // namespace megalith::chat
