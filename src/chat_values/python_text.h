// SPDX-License-Identifier: Apache-2.0
// Text as Python sees it: characters are code points, white space and cases are Unicode's; and the
// text of values as Python's str, repr and json.dumps spell them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat_values/value.h"

namespace megalith::chat {

/// What `{{ value }}` prints.
std::string str(const Value& value, Budget& budget);
/// How a value is spelled within a list: texts in quotes.
std::string repr(const Value& value, Budget& budget);
std::string repr_text(std::string_view text);
std::string repr_float(double value);

/// The options of the filter `tojson`, which are those of Python's json.dumps.
struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // of one level; none: everything on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
std::string to_json(const Value& value, const JsonStyle& style, Budget& budget);

bool is_space(uint32_t code);
/// The characters of a text, each with all its bytes.
std::vector<std::string_view> characters_of(std::string_view text, Budget& budget);
size_t length_of(std::string_view text, Budget& budget);

enum class Side { left, right, both };
/// Without white space at the ends, or without the characters of `set`.
std::string_view strip(std::string_view text, Side side, std::optional<std::string_view> set = {});

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
/// The first character in title case, the others in lower case.
std::string capitalize(std::string_view text);
/// Python's str.title: each run of letters is capitalized.
std::string to_title(std::string_view text);
bool is_upper(std::string_view text);
bool is_lower(std::string_view text);
bool is_letter(uint32_t code);
bool is_digit(uint32_t code);

/// With & < > ' " as HTML spells them.
std::string escape_html(std::string_view text, Budget& budget);

/// Where `part` begins in `text` from `from` on, or npos; in linear time.
size_t find_text(std::string_view text, std::string_view part, size_t from = 0);
/// `most` < 0: all.
std::string replace_text(std::string_view text, std::string_view old, std::string_view with,
                         int64_t most, Budget& budget);
/// The lines without their ends, as str.splitlines cuts them.
std::vector<std::string_view> lines_of(std::string_view text, bool keep_ends = false);

}  // namespace megalith::chat
