// SPDX-License-Identifier: Apache-2.0
#include "chat_values/python_literal.h"

#include <charconv>

#include "characters/utf8.h"
#include "chat_values/python_text.h"

namespace megalith::chat {
namespace {

bool is_digit_here(char c) { return c >= '0' && c <= '9'; }

class LiteralReader {
 public:
  LiteralReader(std::string_view text, Budget& budget) : text_(text), budget_(budget) {}

  Value whole() {
    Value result = value();
    skip_space();
    if (at_ < text_.size()) fail("something follows");
    return result;
  }

 private:
  char look(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool skip(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\n\r\f").find(text_[at_]) != kNowhere) ++at_;
  }
  [[noreturn]] void fail(std::string_view what) const {
    throw Fault("no literal of Python: {} at byte {} of {}", what, at_,
                repr_text(text_.substr(0, std::min<size_t>(text_.size(), 60))));
  }

  Value value() {
    const Budget::Level level(budget_);
    budget_.step();
    skip_space();
    switch (look()) {
      case '[':
        return list();
      case '(':
        return tuple();
      case '{':
        return dict();
      case '\'':
      case '"':
        return text();
      default:
        break;
    }
    if (skip("True")) return Value::boolean(true);
    if (skip("False")) return Value::boolean(false);
    if (skip("None")) return Value::none();
    return number();
  }

  /// Items up to `close`, a comma behind the last one or not.
  Items items(char close, bool& ends_with_comma) {
    Items found;
    ends_with_comma = false;
    while (true) {
      skip_space();
      if (look() == close) break;
      if (!found.empty() && !ends_with_comma) fail("a comma is missing");
      found.push_back(value());
      skip_space();
      ends_with_comma = skip(",");
    }
    ++at_;
    return found;
  }

  Value list() {
    ++at_;
    bool comma = false;
    return make_list(items(']', comma), budget_);
  }

  Value tuple() {
    ++at_;
    bool comma = false;
    Items found = items(')', comma);
    if (found.size() == 1 && !comma) return found[0];  // brackets alone
    return make_sequence(SequenceKind::tuple, std::move(found), budget_);
  }

  Value dict() {
    ++at_;
    Dict found;
    for (bool comma = true;; comma = skip(",")) {
      skip_space();
      if (look() == '}') break;
      if (!comma) fail("a comma is missing");
      const Value key = value();
      skip_space();
      if (!skip(":")) fail("a colon is missing");
      found.set(key, value(), budget_);
      skip_space();
    }
    ++at_;
    return make_dict(std::move(found), budget_);
  }

  /// Literals beside each other are one.
  Value text() {
    std::string joined;
    while (look() == '\'' || look() == '"') {
      one_text(joined);
      skip_space();
    }
    return Value::text(std::move(joined), budget_);
  }

  void one_text(std::string& to) {
    const std::string quote(1, look());
    const bool is_long = text_.substr(at_).starts_with(quote + quote + quote);
    const std::string close = is_long ? quote + quote + quote : quote;
    at_ += close.size();
    while (!skip(close)) {
      if (at_ >= text_.size()) fail("a text has no end");
      if (!is_long && look() == '\n') fail("a line ends within a text");
      if (look() == '\\') {
        escape(to);
      } else {
        to += text_[at_++];
      }
    }
  }

  void escape(std::string& to) {
    static constexpr std::string_view kLetters = "\\'\"abfnrtv", kMeant = "\\'\"\a\b\f\n\r\t\v";
    const char letter = look(1);
    if (at_ + 1 >= text_.size()) fail("a text has no end");
    if (letter == '\n') {  // the line goes on
      at_ += 2;
    } else if (const size_t known = kLetters.find(letter); known != kNowhere) {
      to += kMeant[known];
      at_ += 2;
    } else if (letter == 'x' || letter == 'u' || letter == 'U') {
      at_ += 2;
      code(to, letter == 'x' ? 2 : letter == 'u' ? 4 : 8, 16);
    } else if (letter >= '0' && letter <= '7') {
      ++at_;
      size_t count = 1;
      while (count < 3 && look(count) >= '0' && look(count) <= '7') ++count;
      code(to, count, 8);
    } else if (letter == 'N') {
      fail("characters by name are not supported:");
    } else {  // as Python leaves it
      to += '\\';
      ++at_;
    }
  }

  void code(std::string& to, size_t digits, int base) {
    uint32_t number = 0;
    const char* const begin = text_.data() + at_;
    const char* const end = begin + std::min(digits, text_.size() - at_);
    const auto [stopped, error] = std::from_chars(begin, end, number, base);
    const bool is_character = number < 0x110000 && (number < 0xD800 || number > 0xDFFF);
    if (error != std::errc() || stopped != begin + digits || !is_character)
      fail("an escape of no character");
    characters::append_utf8(to, number);
    at_ += digits;
  }

  Value number() {
    const size_t begin = at_, sign = look() == '+' ? 1 : 0;
    if (look() == '+' || look() == '-') ++at_;
    bool is_real = false;
    while (is_digit_here(look()) || look() == '.' || look() == 'e' || look() == 'E' ||
           ((look() == '-' || look() == '+') && (text_[at_ - 1] | 0x20) == 'e')) {
      is_real = is_real || !is_digit_here(look());
      ++at_;
    }
    const char *const first = text_.data() + begin + sign, *const last = text_.data() + at_;
    int64_t whole = 0;
    double real = 0;
    const auto [stopped, error] =
        is_real ? std::from_chars(first, last, real) : std::from_chars(first, last, whole);
    if (first == last || error != std::errc() || stopped != last) {
      at_ = begin;
      fail("no value");
    }
    return is_real ? Value::real(real) : Value::integer(whole);
  }

  static constexpr size_t kNowhere = std::string_view::npos;
  std::string_view text_;
  Budget& budget_;
  size_t at_ = 0;
};

}  // namespace

Value parse_literal(std::string_view text, Budget& budget) {
  return LiteralReader(text, budget).whole();
}

}  // namespace megalith::chat
