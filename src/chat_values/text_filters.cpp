// SPDX-License-Identifier: Apache-2.0
// Filters that make text. Like Jinja's they take any value as its text.
#include <array>

#include "characters/utf8.h"
#include "chat_values/filters.h"
#include "chat_values/operators.h"
#include "chat_values/python_text.h"

namespace megalith::chat {
namespace {

Value trim(const Value& input, const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("the filter trim", {"chars"});
  const std::string text = str(input, budget);
  std::optional<std::string> set;
  if (bound[0] && !bound[0]->is_none()) set = str(*bound[0], budget);
  budget.step(static_cast<int64_t>(text.size() / 64 * ((set ? set->size() : 0) / 16 + 1)));
  return Value::text(std::string(strip(text, Side::both, set)), budget, input.is_safe_text());
}

template <std::string (*change)(std::string_view)>
Value with_case(const Value& input, const Arguments& arguments, Budget& budget) {
  arguments.bind("this filter", {});
  const std::string text = str(input, budget);
  budget.make(text.size() * 3);
  return Value::text(change(text), budget, input.is_safe_text());
}

/// Jinja's own words: cut at white space, hyphens and opening brackets.
std::string title_words(std::string_view text) {
  std::string result, word;
  const auto end_word = [&] {
    if (word.empty()) return;
    const size_t first = characters::read_utf8(word.data()).length;
    result += to_upper(word.substr(0, first)) + to_lower(word.substr(first));
    word.clear();
  };
  for (size_t at = 0; at < text.size();) {
    const auto point = characters::read_utf8(text.data() + at);
    const std::string_view character = text.substr(at, point.length);
    if (is_space(point.code) ||
        std::string_view("-({[<").find(character) != std::string_view::npos) {
      end_word();
      result += character;
    } else {
      word += character;
    }
    at += point.length;
  }
  end_word();
  return result;
}

Value title(const Value& input, const Arguments& arguments, Budget& budget) {
  arguments.bind("the filter title", {});
  const std::string text = str(input, budget);
  budget.make(text.size() * 3);
  budget.look(text.size() * 8);                   // word by word
  return Value::text(title_words(text), budget);  // plain, whatever the input was
}

Value as_string(const Value& input, const Arguments& arguments, Budget& budget) {
  arguments.bind("the filter string", {});
  return input.is_text() ? input : Value::text(str(input, budget), budget);
}

Value safe(const Value& input, const Arguments& arguments, Budget& budget) {
  arguments.bind("the filter safe", {});
  return Value::text(str(input, budget), budget, true);
}

Value escape(const Value& input, const Arguments& arguments, Budget& budget) {
  arguments.bind("the filter escape", {});
  return escaped(input, budget);
}

Value forceescape(const Value& input, const Arguments& arguments, Budget& budget) {
  arguments.bind("the filter forceescape", {});
  return Value::text(escape_html(str(input, budget), budget), budget, true);
}

Value replace(const Value& input, const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("the filter replace", {"old", "new", "count"});
  if (!bound[0] || !bound[1]) throw Fault("the filter replace needs two texts");
  const bool counts = bound[2] && !bound[2]->is_none();
  const int64_t most = counts ? whole_of(*bound[2], "the count of the filter replace") : -1;
  return Value::text(replace_text(str(input, budget), str(*bound[0], budget),
                                  str(*bound[1], budget), most, budget),
                     budget);
}

Value indent(const Value& input, const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("the filter indent", {"width", "first", "blank"});
  const Value width = bound[0].value_or(Value::integer(4));
  if (!input.is_text()) throw Fault("the filter indent needs a text, not '{}'", type_name(input));
  std::string blanks;
  if (width.is_text()) {
    blanks = width.bytes();
  } else {
    const int64_t count = whole_of(width, "the width of the filter indent");
    budget.make(count > 0 ? static_cast<size_t>(count) : 0);
    blanks.assign(count > 0 ? static_cast<size_t>(count) : 0, ' ');
  }
  const bool first = bound[1] && is_true(*bound[1]), blank = bound[2] && is_true(*bound[2]);
  const std::string text = input.bytes() + "\n";  // so that a last empty line counts
  std::string result;
  bool is_first = true;
  for (const std::string_view line : lines_of(text)) {
    budget.make(blanks.size() + line.size() + 1);
    if (!is_first) result += "\n";
    if (is_first ? first : blank || !line.empty()) result += blanks;
    result += line;
    is_first = false;
  }
  return Value::text(std::move(result), budget, input.is_safe_text());
}

Value join(const Value& input, const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("the filter join", {"d", "attribute"});
  const std::string separator = bound[0] ? str(*bound[0], budget) : "";
  std::string result;
  bool is_first = true;
  for (const Value& item : items_of(input, budget)) {
    const Value part = bound[1] ? item_at_path(item, *bound[1], budget) : item;
    const std::string text = str(part, budget);
    budget.make(text.size() + separator.size());
    if (!is_first) result += separator;
    result += text;
    is_first = false;
  }
  return Value::text(std::move(result), budget);
}

Value to_json_text(const Value& input, const Arguments& arguments, Budget& budget) {
  const auto bound =
      arguments.bind("the filter tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = bound[0] && is_true(*bound[0]);
  if (bound[1] && !bound[1]->is_none()) {
    if (bound[1]->is_text()) {
      style.indent = bound[1]->bytes();
    } else {
      const int64_t width = whole_of(*bound[1], "the indent of the filter tojson");
      if (width > 1024) throw Fault("an indent of {} in the filter tojson", width);
      style.indent = std::string(width > 0 ? static_cast<size_t>(width) : 0, ' ');
    }
    style.item_separator = ",";
  }
  if (bound[2] && !bound[2]->is_none()) {
    const Items pair = items_of(*bound[2], budget);
    if (pair.size() != 2 || !pair[0].is_text() || !pair[1].is_text())
      throw Fault("the separators of the filter tojson are not two texts");
    style.item_separator = pair[0].bytes();
    style.key_separator = pair[1].bytes();
  }
  style.sort_keys = bound[3] && is_true(*bound[3]);
  return Value::text(to_json(input, style, budget), budget);
}

Value wordcount(const Value& input, const Arguments& arguments, Budget& budget) {
  arguments.bind("the filter wordcount", {});
  const std::string text = str(input, budget);
  int64_t words = 0;
  bool within = false;
  for (const std::string_view character : characters_of(text, budget)) {
    const uint32_t code = characters::read_utf8(character.data()).code;
    const bool is_word = code == '_' || is_letter(code) || is_digit(code);
    words += is_word && !within ? 1 : 0;
    within = is_word;
  }
  return Value::integer(words);
}

constexpr std::array<std::pair<std::string_view, Filter>, 15> kTextFilters = {{
    {"trim", trim},
    {"upper", with_case<to_upper>},
    {"lower", with_case<to_lower>},
    {"title", title},
    {"capitalize", with_case<capitalize>},
    {"string", as_string},
    {"safe", safe},
    {"e", escape},
    {"escape", escape},
    {"forceescape", forceescape},
    {"replace", replace},
    {"indent", indent},
    {"join", join},
    {"tojson", to_json_text},
    {"wordcount", wordcount},
}};

}  // namespace

Filter text_filter(std::string_view name) {
  for (const auto& [known, filter] : kTextFilters)
    if (known == name) return filter;
  return nullptr;
}

}  // namespace megalith::chat
