// SPDX-License-Identifier: Apache-2.0
#include "chat_values/python_text.h"

#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <cstring>

#include "characters/utf8.h"

namespace megalith::chat {
namespace {

using characters::read_utf8;

using IcuCaseMap = void(const char*, uint32_t, icu::StringPiece, icu::ByteSink&, icu::Edits*,
                        UErrorCode&);

std::string mapped(std::string_view text, IcuCaseMap* map) {
  std::string result;
  icu::StringByteSink<std::string> sink(&result, static_cast<int32_t>(text.size()));
  UErrorCode status = U_ZERO_ERROR;
  map("", 0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())), sink, nullptr,
      status);
  if (U_FAILURE(status)) throw SystemError("ICU CaseMap failed: {}", u_errorName(status));
  return result;
}

template <typename Work>
void for_each_code(std::string_view text, const Work& work) {
  for (size_t at = 0; at < text.size();) {
    const auto point = read_utf8(text.data() + at);
    work(point.code, text.substr(at, point.length));
    at += point.length;
  }
}

bool is_cased(uint32_t code) {
  const auto point = static_cast<UChar32>(code);
  return u_isUUppercase(point) || u_isULowercase(point) || u_istitle(point);
}

}  // namespace

bool is_space(uint32_t code) {
  if (code < 0x80)
    return code == ' ' || (code >= 9 && code <= 13) || (code >= 0x1C && code <= 0x1F);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

std::vector<std::string_view> characters_of(std::string_view text, Budget& budget) {
  budget.make(text.size() * sizeof(std::string_view));
  std::vector<std::string_view> all;
  all.reserve(text.size());
  for_each_code(text, [&](uint32_t, std::string_view character) { all.push_back(character); });
  return all;
}

size_t length_of(std::string_view text, Budget& budget) {
  budget.look(text.size());
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

std::string_view strip(std::string_view text, Side side, std::optional<std::string_view> set) {
  const auto goes = [&](const char* at) {
    const auto point = read_utf8(at);
    if (!set) return is_space(point.code);
    return find_text(*set, std::string_view(at, point.length)) != std::string_view::npos;
  };
  const char *begin = text.data(), *end = begin + text.size();
  if (side != Side::right)
    while (begin < end && goes(begin)) begin += read_utf8(begin).length;
  if (side != Side::left) {
    while (begin < end) {
      const char* last = characters::previous_character(begin, end);
      if (!goes(last)) break;
      end = last;
    }
  }
  return {begin, static_cast<size_t>(end - begin)};
}

std::string to_upper(std::string_view text) { return mapped(text, icu::CaseMap::utf8ToUpper); }
std::string to_lower(std::string_view text) { return mapped(text, icu::CaseMap::utf8ToLower); }

std::string capitalize(std::string_view text) {
  return mapped(text, [](const char* locale, uint32_t, icu::StringPiece source, icu::ByteSink& sink,
                         icu::Edits* edits, UErrorCode& status) {
    // The whole text is one word, and its first character is the one that counts.
    constexpr uint32_t kOptions = U_TITLECASE_WHOLE_STRING | U_TITLECASE_NO_BREAK_ADJUSTMENT;
    icu::CaseMap::utf8ToTitle(locale, kOptions, nullptr, source, sink, edits, status);
  });
}

std::string to_title(std::string_view text) {
  std::string result, word;
  const auto end_word = [&] {
    result += capitalize(word);
    word.clear();
  };
  for_each_code(text, [&](uint32_t code, std::string_view character) {
    if (is_cased(code)) {
      word += character;
    } else {
      end_word();
      result += character;
    }
  });
  end_word();
  return result;
}

bool is_upper(std::string_view text) {
  bool found = false, good = true;
  for_each_code(text, [&](uint32_t code, std::string_view) {
    const auto point = static_cast<UChar32>(code);
    if (u_isULowercase(point) || u_istitle(point)) good = false;
    if (u_isUUppercase(point)) found = true;
  });
  return found && good;
}

bool is_lower(std::string_view text) {
  bool found = false, good = true;
  for_each_code(text, [&](uint32_t code, std::string_view) {
    const auto point = static_cast<UChar32>(code);
    if (u_isUUppercase(point) || u_istitle(point)) good = false;
    if (u_isULowercase(point)) found = true;
  });
  return found && good;
}

bool is_letter(uint32_t code) { return u_isalpha(static_cast<UChar32>(code)); }
bool is_digit(uint32_t code) { return u_isdigit(static_cast<UChar32>(code)); }

std::string escape_html(std::string_view text, Budget& budget) {
  budget.make(text.size());
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '\'':
        result += "&#39;";
        break;
      case '"':
        result += "&#34;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

size_t find_text(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (part.empty()) return from;
  // memmem searches in linear time, which std::string_view::find does not.
  const void* found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

std::string replace_text(std::string_view text, std::string_view old, std::string_view with,
                         int64_t most, Budget& budget) {
  std::string result;
  size_t at = 0;
  budget.look(text.size());
  const auto add = [&](std::string_view part) {
    budget.look(part.size() + 16);
    if (result.size() + part.size() > budget.limits().memory_bytes) budget.make(SIZE_MAX / 2);
    result += part;
  };
  for (int64_t count = 0; most < 0 || count < most; ++count) {
    const size_t found = find_text(text, old, at);
    if (found == std::string_view::npos) break;
    add(text.substr(at, found - at));
    add(with);
    at = found + old.size();
    if (!old.empty()) continue;
    if (at >= text.size()) return result;  // also after the last character
    const size_t length = read_utf8(text.data() + at).length;
    add(text.substr(at, length));
    at += length;
  }
  add(text.substr(std::min(at, text.size())));
  return result;
}

std::vector<std::string_view> lines_of(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const auto point = read_utf8(text.data() + at);
    const uint32_t code = point.code;
    const bool ends = (code >= 10 && code <= 13) || (code >= 0x1C && code <= 0x1E) ||
                      code == 0x85 || code == 0x2028 || code == 0x2029;
    size_t next = at + point.length;
    if (code == '\r' && next < text.size() && text[next] == '\n') ++next;
    if (ends) {
      lines.push_back(text.substr(begin, (keep_ends ? next : at) - begin));
      begin = next;
    }
    at = next;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

}  // namespace megalith::chat
