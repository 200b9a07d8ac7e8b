// SPDX-License-Identifier: Apache-2.0
#include "tasks/filters.h"

#include <algorithm>

#include "chat_values/python_text.h"

namespace megalith::tasks {
namespace {

std::string stripped(std::string_view text) {
  return std::string(chat::strip(text, chat::Side::both));
}

/// The first group that is not empty of the match that the step selects; of a pattern without
/// groups the match.
std::string extracted(const FilterStep& step, const tokenize::Regex& regex,
                      const std::string& text) {
  const auto found = regex.groups(text);
  const int64_t count = std::ssize(found);
  const int64_t place = step.group_select < 0 ? step.group_select + count : step.group_select;
  if (place < 0 || place >= count) return step.fallback;
  const std::vector<std::string_view>& groups = found[static_cast<size_t>(place)];
  // re.findall gives the match, the only group, or all groups.
  if (groups.size() <= 2) return stripped(groups.back());
  for (const std::string_view group : std::span(groups).subspan(1))
    if (!group.empty()) return stripped(group);
  return stripped(step.fallback);
}

bool is_ascii_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
         (c >= '{' && c <= '~');
}
bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

TextFilter::TextFilter(const Filter& filter, const std::string& task) {
  using Syntax = tokenize::Regex::Syntax;
  for (const FilterStep& step : filter.steps) {
    Step made{step, nullptr};
    if (step.kind == FilterStep::Kind::regex) {
      made.regex = std::make_shared<const tokenize::Regex>(
          step.pattern, task + " filter " + filter.name, Syntax::python);
    }
    steps_.push_back(std::move(made));
  }
}

std::string TextFilter::apply(std::string text) const {
  using Kind = FilterStep::Kind;
  for (const auto& [step, regex] : steps_) {
    switch (step.kind) {
      case Kind::regex:
        text = extracted(step, *regex, text);
        break;
      case Kind::take_first:  // there is one
        break;
      case Kind::remove_whitespace:
        text = stripped(text);
        break;
      case Kind::lowercase:
        text = chat::to_lower(text);
        break;
      case Kind::uppercase:
        text = chat::to_upper(text);
        break;
      case Kind::map: {
        const auto found =
            std::ranges::find(step.mapping, text, &std::pair<std::string, std::string>::first);
        text = found != step.mapping.end() ? found->second : step.default_value.value_or("None");
        break;
      }
    }
  }
  return text;
}

TextMatch::TextMatch(const MatchOptions& options, const std::string& task) : options_(options) {
  for (const std::string& pattern : options.regexes_to_ignore)
    ignored_.emplace_back(pattern, task + " regexes_to_ignore", tokenize::Regex::Syntax::python);
}

std::string TextMatch::reduced(std::string text) const {
  for (const tokenize::Regex& regex : ignored_) {
    std::string rest;
    regex.append_replaced(text, "", rest);
    text = std::move(rest);
  }
  if (options_.ignore_case) text = chat::to_lower(text);
  if (options_.ignore_punctuation) std::erase_if(text, is_ascii_punctuation);
  if (options_.ignore_numbers) std::erase_if(text, is_ascii_digit);
  return text;
}

bool TextMatch::matches(const std::string& text, const std::string& right) const {
  return reduced(text) == reduced(right);
}

}  // namespace megalith::tasks
