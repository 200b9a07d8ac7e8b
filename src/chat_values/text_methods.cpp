// SPDX-License-Identifier: Apache-2.0
// Python's methods of str.
#include <algorithm>
#include <array>

#include "characters/utf8.h"
#include "chat_values/methods.h"
#include "chat_values/operators.h"
#include "chat_values/python_text.h"

namespace megalith::chat {
namespace {

constexpr size_t kNone = std::string_view::npos;

Value text_of(std::string_view text, Budget& budget) {
  return Value::text(std::string(text), budget);
}

const std::string& text_argument(const std::optional<Value>& value, std::string_view what) {
  if (!value) throw Fault("{} needs an argument", what);
  if (const Undefined* undefined = value->get_if<Undefined>()) throw Fault("{}", *undefined->why);
  if (!value->is_text()) throw Fault("{} needs a text, not '{}'", what, type_name(*value));
  return value->bytes();
}

template <Side side>
Value stripped(const Value& self, const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("strip", {"chars"});
  budget.look(self.bytes().size());
  if (!bound[0] || bound[0]->is_none()) return text_of(strip(self.bytes(), side), budget);
  const std::string& set = text_argument(bound[0], "strip");
  budget.step(static_cast<int64_t>(self.bytes().size() / 64 * (set.size() / 16 + 1)));
  return text_of(strip(self.bytes(), side, set), budget);
}

template <std::string (*change)(std::string_view)>
Value changed(const Value& self, const Arguments& arguments, Budget& budget) {
  arguments.bind("this method of str", {});
  budget.make(self.bytes().size() * 3);
  budget.look(self.bytes().size() * 8);  // some go word by word
  return Value::text(change(self.bytes()), budget);
}

template <bool (*asks)(std::string_view)>
Value asked(const Value& self, const Arguments& arguments, Budget& budget) {
  arguments.bind("this method of str", {});
  budget.look(self.bytes().size());
  return Value::boolean(asks(self.bytes()));
}

template <bool (*asks)(uint32_t)>
bool all_are(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const auto point = characters::read_utf8(text.data() + at);
    if (!asks(point.code)) return false;
    at += point.length;
  }
  return !text.empty();
}

Items blank_parts(std::string_view text, int64_t most, Budget& budget) {
  Items parts;
  text = strip(text, Side::left);
  while (!text.empty()) {
    size_t end = 0;
    while (end < text.size()) {
      const auto point = characters::read_utf8(text.data() + end);
      if (is_space(point.code)) break;
      end += point.length;
    }
    if (most >= 0 && static_cast<int64_t>(parts.size()) == most) {
      parts.push_back(text_of(strip(text, Side::right), budget));
      break;
    }
    parts.push_back(text_of(text.substr(0, end), budget));
    text = strip(text.substr(end), Side::left);
  }
  return parts;
}

/// What a search from the right may cost: it compares the whole part at every place.
void look_back(std::string_view text, std::string_view part, Budget& budget) {
  budget.step(static_cast<int64_t>((text.size() / 64 + 1) * (part.size() / 64 + 1)));
}

Value split(const Value& self, const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("split", {"sep", "maxsplit"});
  const int64_t most = bound[1] ? whole_of(*bound[1], "maxsplit") : -1;
  std::string_view text = self.bytes();
  budget.make(text.size());
  if (!bound[0] || bound[0]->is_none()) return make_list(blank_parts(text, most, budget), budget);
  const std::string& separator = text_argument(bound[0], "split");
  if (separator.empty()) throw Fault("split needs a separator that is not empty");
  Items parts;
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    const size_t found = find_text(text, separator);
    if (found == kNone) break;
    parts.push_back(text_of(text.substr(0, found), budget));
    text.remove_prefix(found + separator.size());
  }
  parts.push_back(text_of(text, budget));
  return make_list(std::move(parts), budget);
}

Value rsplit(const Value& self, const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("rsplit", {"sep", "maxsplit"});
  const int64_t most = bound[1] ? whole_of(*bound[1], "maxsplit") : -1;
  if (most < 0) return split(self, arguments, budget);
  if (!bound[0] || bound[0]->is_none())
    throw Fault("rsplit with maxsplit and without a separator is not supported");
  const std::string& separator = text_argument(bound[0], "rsplit");
  if (separator.empty()) throw Fault("rsplit needs a separator that is not empty");
  // Places found from the right: what overlaps belongs to the one further right.
  std::string_view text = self.bytes();
  budget.make(text.size());
  Items parts;
  while (static_cast<int64_t>(parts.size()) < most) {
    look_back(text, separator, budget);
    const size_t found = text.rfind(separator);
    if (found == kNone) break;
    parts.push_back(text_of(text.substr(found + separator.size()), budget));
    text = text.substr(0, found);
  }
  parts.push_back(text_of(text, budget));
  std::reverse(parts.begin(), parts.end());
  return make_list(std::move(parts), budget);
}

Value partition(const Value& self, const Arguments& arguments, Budget& budget) {
  const std::string& separator =
      text_argument(arguments.bind("partition", {"sep"})[0], "partition");
  if (separator.empty()) throw Fault("partition needs a separator that is not empty");
  const std::string_view text = self.bytes();
  const size_t found = std::min(find_text(text, separator), text.size());
  const size_t rest = std::min(found + separator.size(), text.size());
  return make_sequence(
      SequenceKind::tuple,
      {text_of(text.substr(0, found), budget), text_of(text.substr(found, rest - found), budget),
       text_of(text.substr(rest), budget)},
      budget);
}

Value splitlines(const Value& self, const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("splitlines", {"keepends"});
  budget.make(self.bytes().size() * 2);
  Items lines;
  for (const std::string_view line : lines_of(self.bytes(), bound[0] && is_true(*bound[0])))
    lines.push_back(text_of(line, budget));
  return make_list(std::move(lines), budget);
}

/// True if the text begins (or ends) with the argument, or with one of a tuple.
template <bool at_begin>
Value has_end(const Value& self, const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("startswith or endswith", {"prefix"});
  const auto has = [&](const Value& part) {
    const std::string& text = text_argument(part, "startswith or endswith");
    budget.look(text.size());
    return at_begin ? self.bytes().starts_with(text) : self.bytes().ends_with(text);
  };
  const Sequence* several = bound[0] ? bound[0]->sequence() : nullptr;
  if (!several || several->kind != SequenceKind::tuple)
    return Value::boolean(has(bound[0].value_or(Value::none())));
  return Value::boolean(std::any_of(several->items.begin(), several->items.end(), has));
}

template <bool at_begin>
Value without_end(const Value& self, const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("removeprefix or removesuffix", {"part"});
  const std::string& part = text_argument(bound[0], "removeprefix or removesuffix");
  std::string_view text = self.bytes();
  if (at_begin && text.starts_with(part)) text.remove_prefix(part.size());
  if (!at_begin && text.ends_with(part)) text.remove_suffix(part.size());
  return text_of(text, budget);
}

Value replaced(const Value& self, const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("replace", {"old", "new", "count"});
  const int64_t most = bound[2] ? whole_of(*bound[2], "count") : -1;
  return Value::text(replace_text(self.bytes(), text_argument(bound[0], "replace"),
                                  text_argument(bound[1], "replace"), most, budget),
                     budget);
}

Value joined_by(const Value& self, const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("join", {"iterable"});
  if (!bound[0]) throw Fault("join needs a list");
  std::string text;
  for (const Value& item : items_of(*bound[0], budget)) {
    const std::string& part = text_argument(item, "join");
    budget.make(part.size() + self.bytes().size());
    text += part;
    text += self.bytes();
  }
  if (text.size() >= self.bytes().size() && !text.empty())
    text.resize(text.size() - self.bytes().size());
  return Value::text(std::move(text), budget);
}

/// Where the argument begins, counted in characters; -1 if nowhere.
template <bool from_right>
Value find(const Value& self, const Arguments& arguments, Budget& budget) {
  const std::string& part = text_argument(arguments.bind("find", {"sub"})[0], "find");
  const std::string_view text = self.bytes();
  look_back(text, part, budget);
  const size_t found = from_right ? text.rfind(part) : find_text(text, part);
  if (found == kNone) return Value::integer(-1);
  return Value::integer(static_cast<int64_t>(length_of(text.substr(0, found), budget)));
}

Value index(const Value& self, const Arguments& arguments, Budget& budget) {
  const Value found = find<false>(self, arguments, budget);
  if (*found.whole() < 0) throw Fault("the text that 'index' asks for is not in the text");
  return found;
}

Value count(const Value& self, const Arguments& arguments, Budget& budget) {
  const std::string& part = text_argument(arguments.bind("count", {"sub"})[0], "count");
  budget.look(self.bytes().size());
  if (part.empty())
    return Value::integer(static_cast<int64_t>(length_of(self.bytes(), budget)) + 1);
  int64_t times = 0;
  for (size_t at = 0; (at = find_text(self.bytes(), part, at)) != kNone; at += part.size()) ++times;
  return Value::integer(times);
}

template <bool to_left>
Value padded(const Value& self, const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("ljust or rjust", {"width", "fillchar"});
  if (!bound[0]) throw Fault("ljust and rjust need a width");
  const std::string fill = bound[1] ? text_argument(bound[1], "ljust or rjust") : " ";
  if (length_of(fill, budget) != 1) throw Fault("ljust and rjust fill with one character");
  const auto length = static_cast<int64_t>(length_of(self.bytes(), budget));
  const auto missing =
      static_cast<size_t>(std::max<int64_t>(0, whole_of(*bound[0], "the width") - length));
  budget.make(missing > budget.limits().memory_bytes / fill.size() ? SIZE_MAX / 2
                                                                   : missing * fill.size());
  std::string padding;
  for (size_t i = 0; i < missing; ++i) padding += fill;
  return Value::text(to_left ? self.bytes() + padding : padding + self.bytes(), budget);
}

constexpr std::array<std::pair<std::string_view, Method>, 28> kMethods = {{
    {"strip", stripped<Side::both>},
    {"lstrip", stripped<Side::left>},
    {"rstrip", stripped<Side::right>},
    {"split", split},
    {"rsplit", rsplit},
    {"splitlines", splitlines},
    {"partition", partition},
    {"startswith", has_end<true>},
    {"endswith", has_end<false>},
    {"removeprefix", without_end<true>},
    {"removesuffix", without_end<false>},
    {"replace", replaced},
    {"join", joined_by},
    {"upper", changed<to_upper>},
    {"lower", changed<to_lower>},
    {"title", changed<to_title>},
    {"capitalize", changed<capitalize>},
    {"isupper", asked<is_upper>},
    {"islower", asked<is_lower>},
    {"isdigit", asked<all_are<is_digit>>},
    {"isalpha", asked<all_are<is_letter>>},
    {"isspace", asked<all_are<is_space>>},
    {"find", find<false>},
    {"rfind", find<true>},
    {"index", index},
    {"count", count},
    {"ljust", padded<true>},
    {"rjust", padded<false>},
}};

}  // namespace

Method text_method(std::string_view name) {
  for (const auto& [known, method] : kMethods)
    if (known == name) return method;
  return nullptr;
}

}  // namespace megalith::chat
