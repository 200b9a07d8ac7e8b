// SPDX-License-Identifier: Apache-2.0
// What surrounds the lexer: the source as Jinja reads it, escapes, names of tokens.
#include "chat/token.h"
#include "characters/utf8.h"

namespace megalith::chat {
namespace {

std::optional<uint32_t> digits_of(std::string_view text, uint32_t base) {
  uint32_t code = 0;
  for (const char c : text) {
    const uint32_t digit = c >= '0' && c <= '9'   ? static_cast<uint32_t>(c - '0')
                           : c >= 'a' && c <= 'f' ? static_cast<uint32_t>(c - 'a') + 10
                           : c >= 'A' && c <= 'F' ? static_cast<uint32_t>(c - 'A') + 10
                                                  : 99;
    if (digit >= base) return std::nullopt;
    code = code * base + digit;
  }
  return code;
}

/// The code point of \xhh, \uhhhh, \Uhhhhhhhh.
uint32_t hexadecimal(std::string_view rest, size_t count, uint32_t at) {
  const auto code = rest.size() >= count ? digits_of(rest.substr(0, count), 16) : std::nullopt;
  if (!code || *code > 0x10FFFF) throw SyntaxFault(at, "an escape without its {} digits", count);
  if (*code >= 0xD800 && *code < 0xE000)
    throw SyntaxFault(at, "the escape of half a character (a surrogate) is not supported");
  return *code;
}

}  // namespace

std::string resolve_escapes(std::string_view content, uint32_t at) {
  static constexpr std::string_view kLetters = "\\'\"abfnrtv", kMeant = "\\'\"\a\b\f\n\r\t\v";
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    if (content[i] != '\\' || i + 1 == content.size()) {
      text += content[i];
      continue;
    }
    const char letter = content[++i];
    const std::string_view rest = content.substr(i + 1);
    if (const size_t found = kLetters.find(letter); found != std::string_view::npos) {
      text += kMeant[found];
    } else if (letter == '\n') {
      continue;
    } else if (letter == 'x' || letter == 'u' || letter == 'U') {
      const size_t count = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
      characters::append_utf8(text, hexadecimal(rest, count, at));
      i += count;
    } else if (letter >= '0' && letter <= '7') {
      size_t count = 1;
      while (count < 3 && i + count < content.size() && content[i + count] >= '0' &&
             content[i + count] <= '7')
        ++count;
      characters::append_utf8(text, *digits_of(content.substr(i, count), 8));
      i += count - 1;
    } else if (letter == 'N') {
      throw SyntaxFault(at, "escapes by a character's name (\\N) are not supported");
    } else {  // as it stands; Python spells what is not ASCII before it reads escapes
      text += '\\';
      const auto point = characters::read_utf8(content.data() + i);
      if (point.code < 0x80)
        text += letter;
      else
        text += fmt::format(fmt::runtime(point.code < 0x100     ? "x{:02x}"
                                         : point.code < 0x10000 ? "u{:04x}"
                                                                : "U{:08x}"),
                            point.code);
      i += point.length - 1;
    }
  }
  return text;
}

std::string normalized_source(std::string_view source, bool keeps_last) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text += source[i];
    } else {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!keeps_last && text.ends_with('\n')) text.pop_back();
  return text;
}

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::data:
      return "text";
    case TokenKind::print_begin:
      return "'{{'";
    case TokenKind::print_end:
      return "'}}'";
    case TokenKind::block_begin:
      return "'{%'";
    case TokenKind::block_end:
      return "'%}'";
    case TokenKind::text:
      return "a text";
    case TokenKind::whole:
    case TokenKind::real:
      return "a number";
    case TokenKind::name:
    case TokenKind::sign:
      return "'" + token.text.substr(0, 60) + "'";
    case TokenKind::end:
      return "the end of the template";
  }
  return "";
}

}  // namespace megalith::chat
