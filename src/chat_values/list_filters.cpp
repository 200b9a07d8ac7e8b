// SPDX-License-Identifier: Apache-2.0
// Filters on lists and dicts.
#include <algorithm>
#include <array>
#include <unordered_set>

#include "chat_values/filters.h"
#include "chat_values/operators.h"
#include "chat_values/python_text.h"

namespace megalith::chat {
namespace {

/// Texts without regard to case, as Jinja sorts unless told otherwise.
Value without_case(const Value& value, Budget& budget) {
  return value.is_text() ? Value::text(to_lower(value.bytes()), budget) : value;
}

bool flag(const std::optional<Value>& value) { return value && is_true(*value); }

Value first(const Value& input, const Arguments& arguments, Budget& budget) {
  arguments.bind("the filter first", {});
  const Sequence* sequence = input.sequence();
  if (sequence && sequence->kind == SequenceKind::iterator &&
      sequence->taken < sequence->items.size())
    return sequence->items[sequence->taken++];
  const Items items = items_of(input, budget);
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

Value last(const Value& input, const Arguments& arguments, Budget& budget) {
  arguments.bind("the filter last", {});
  const Sequence* sequence = input.sequence();
  if (sequence && sequence->kind == SequenceKind::iterator)
    throw Fault("a generator has no last item; give it to the filter 'list' first");
  const Items items = items_of(input, budget);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value list(const Value& input, const Arguments& arguments, Budget& budget) {
  arguments.bind("the filter list", {});
  return make_list(items_of(input, budget), budget);
}

Value reverse(const Value& input, const Arguments& arguments, Budget& budget) {
  arguments.bind("the filter reverse", {});
  Items items = items_of(input, budget);
  std::reverse(items.begin(), items.end());
  if (!input.is_text()) return make_iterator(std::move(items), budget);
  std::string text;
  for (const Value& character : items) text += character.bytes();
  return Value::text(std::move(text), budget, input.is_safe_text());
}

Value items(const Value& input, const Arguments& arguments, Budget& budget) {
  arguments.bind("the filter items", {});
  Items pairs;
  if (!input.is_undefined()) {
    const Dict* dict = input.dict();
    if (!dict) throw Fault("the filter items needs a mapping, not '{}'", type_name(input));
    for (const auto& [key, value] : dict->entries)
      pairs.push_back(make_sequence(SequenceKind::tuple, {key, value}, budget));
  }
  return make_iterator(std::move(pairs), budget);
}

template <typename Key>
Items sorted(const Items& items, bool reversed, const Key& key, Budget& budget) {
  std::vector<std::pair<Value, size_t>> keys;
  for (size_t i = 0; i < items.size(); ++i) keys.emplace_back(key(items[i]), i);
  std::stable_sort(keys.begin(), keys.end(), [&](const auto& a, const auto& b) {
    return reversed ? less(b.first, a.first, budget) : less(a.first, b.first, budget);
  });
  Items result;
  for (const auto& [unused, place] : keys) result.push_back(items[place]);
  return result;
}

/// The paths of "a,b.c"; what is no text is one itself.
Items paths_of(const Value& path, Budget& budget) {
  if (!path.is_text()) return {path};
  Items paths;
  std::string_view rest = path.bytes();
  while (true) {
    const size_t comma = rest.find(',');
    paths.push_back(Value::text(std::string(rest.substr(0, comma)), budget));
    if (comma == std::string_view::npos) return paths;
    rest.remove_prefix(comma + 1);
  }
}

Value sort(const Value& input, const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("the filter sort", {"reverse", "case_sensitive", "attribute"});
  const Items paths = paths_of(bound[2].value_or(Value::none()), budget);
  const auto key = [&](const Value& item) {
    Items keys;
    for (const Value& path : paths) {
      const Value found = item_at_path(item, path, budget);
      keys.push_back(flag(bound[1]) ? found : without_case(found, budget));
    }
    return make_list(std::move(keys), budget);
  };
  return make_list(sorted(items_of(input, budget), flag(bound[0]), key, budget), budget);
}

Value dictsort(const Value& input, const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("the filter dictsort", {"case_sensitive", "by", "reverse"});
  const Dict* dict = input.dict();
  if (!dict) throw Fault("the filter dictsort needs a mapping, not '{}'", type_name(input));
  const std::string by = bound[1] ? str(*bound[1], budget) : "key";
  if (by != "key" && by != "value") throw Fault("the filter dictsort sorts by 'key' or 'value'");
  Items pairs;
  for (const auto& [key, value] : dict->entries)
    pairs.push_back(make_sequence(SequenceKind::tuple, {key, value}, budget));
  const auto key = [&](const Value& pair) {
    const Value& part = pair.sequence()->items[by == "key" ? 0 : 1];
    return flag(bound[0]) ? part : without_case(part, budget);
  };
  return make_list(sorted(pairs, flag(bound[2]), key, budget), budget);
}

Value groupby(const Value& input, const Arguments& arguments, Budget& budget) {
  const auto bound =
      arguments.bind("the filter groupby", {"attribute", "default", "case_sensitive"});
  if (!bound[0]) throw Fault("the filter groupby needs an attribute");
  const auto found = [&](const Value& item) {
    return item_at_path(item, *bound[0], budget, bound[1].value_or(Value::none()));
  };
  const auto key = [&](const Value& item) {
    return flag(bound[2]) ? found(item) : without_case(found(item), budget);
  };
  Items groups, group;
  const auto end_group = [&] {
    if (group.empty()) return;
    const Value name = found(group.front());
    const Value all = make_list(std::exchange(group, {}), budget);
    groups.push_back(
        make_sequence(SequenceKind::tuple, {name, all}, budget, std::string(kGroupName)));
  };
  for (const Value& item : sorted(items_of(input, budget), false, key, budget)) {
    if (!group.empty() && !equal(key(group.back()), key(item), budget)) end_group();
    group.push_back(item);
  }
  end_group();
  return make_list(std::move(groups), budget);
}

Value unique(const Value& input, const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("the filter unique", {"case_sensitive", "attribute"});
  std::unordered_set<std::string> seen;
  Items result;
  for (const Value& item : items_of(input, budget)) {
    const Value found = item_at_path(item, bound[1].value_or(Value::none()), budget);
    const std::string key = key_of(flag(bound[0]) ? found : without_case(found, budget), budget);
    budget.make(key.size() + 64);
    if (seen.insert(key).second) result.push_back(item);
  }
  return make_iterator(std::move(result), budget);
}

template <bool wants_largest>
Value extreme(const Value& input, const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("the filter min or max", {"case_sensitive", "attribute"});
  const Items all = items_of(input, budget);
  if (all.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  const auto key = [&](const Value& item) {
    const Value found = item_at_path(item, bound[1].value_or(Value::none()), budget);
    return flag(bound[0]) ? found : without_case(found, budget);
  };
  size_t best = 0;
  Value best_key = key(all[0]);
  for (size_t i = 1; i < all.size(); ++i) {
    Value other = key(all[i]);
    if (!(wants_largest ? less(best_key, other, budget) : less(other, best_key, budget))) continue;
    best = i;
    best_key = std::move(other);
  }
  return all[best];
}

Value batch(const Value& input, const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("the filter batch", {"linecount", "fill_with"});
  const int64_t count = bound[0] ? whole_of(*bound[0], "the count of the filter batch") : 0;
  if (count < 1) throw Fault("the filter batch needs a count of 1 or more");
  Items batches, part;
  const auto end_part = [&] { batches.push_back(make_list(std::exchange(part, {}), budget)); };
  for (const Value& item : items_of(input, budget)) {
    if (static_cast<int64_t>(part.size()) == count) end_part();
    part.push_back(item);
  }
  if (!part.empty() && bound[1] && !bound[1]->is_none()) {
    while (static_cast<int64_t>(part.size()) < count) {
      budget.make(sizeof(Value));
      part.push_back(*bound[1]);
    }
  }
  if (!part.empty()) end_part();
  return make_iterator(std::move(batches), budget);
}

Value map(const Value& input, const Arguments& arguments, Budget& budget) {
  if (!is_true(input)) return make_iterator({}, budget);  // whatever it is
  Items result;
  if (arguments.positional.empty()) {
    const auto bound = arguments.bind("the filter map", {"attribute", "default"});
    if (!bound[0]) throw Fault("the filter map needs the name of a filter or an attribute");
    for (const Value& item : items_of(input, budget))
      result.push_back(item_at_path(item, *bound[0], budget, bound[1].value_or(Value::none())));
    return make_iterator(std::move(result), budget);
  }
  Arguments rest = arguments;
  const std::string name = str(rest.positional.front(), budget);
  rest.positional.erase(rest.positional.begin());
  for (const Value& item : items_of(input, budget)) {
    budget.step();
    result.push_back(apply_filter(name, item, rest, budget));
  }
  return make_iterator(std::move(result), budget);
}

/// select, reject, selectattr, rejectattr: keeps what passes a test, or is true if none is named.
template <bool of_attribute, bool keeps>
Value select(const Value& input, const Arguments& arguments, Budget& budget) {
  if (!is_true(input)) return make_iterator({}, budget);  // whatever it is
  Arguments rest = arguments;
  const auto take = [&]() -> std::optional<Value> {
    if (rest.positional.empty()) return std::nullopt;
    Value front = rest.positional.front();
    rest.positional.erase(rest.positional.begin());
    return front;
  };
  const std::optional<Value> path = of_attribute ? take() : std::nullopt;
  if (of_attribute && !path) throw Fault("this filter needs the name of an attribute");
  const std::optional<Value> test = take();
  const std::string name = test ? str(*test, budget) : "";
  Items result;
  for (const Value& item : items_of(input, budget)) {
    budget.step();
    const Value asked = path ? item_at_path(item, *path, budget) : item;
    const bool passes = test ? apply_test(name, asked, rest, budget) : is_true(asked);
    if (passes == keeps) result.push_back(item);
  }
  return make_iterator(std::move(result), budget);
}

constexpr std::array<std::pair<std::string_view, Filter>, 17> kListFilters = {{
    {"first", first},
    {"last", last},
    {"list", list},
    {"reverse", reverse},
    {"items", items},
    {"sort", sort},
    {"dictsort", dictsort},
    {"groupby", groupby},
    {"unique", unique},
    {"min", extreme<false>},
    {"max", extreme<true>},
    {"batch", batch},
    {"map", map},
    {"select", select<false, true>},
    {"reject", select<false, false>},
    {"selectattr", select<true, true>},
    {"rejectattr", select<true, false>},
}};

}  // namespace

Filter list_filter(std::string_view name) {
  for (const auto& [known, filter] : kListFilters)
    if (known == name) return filter;
  return nullptr;
}

}  // namespace megalith::chat
