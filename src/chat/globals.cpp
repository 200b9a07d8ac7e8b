// SPDX-License-Identifier: Apache-2.0
#include "chat/globals.h"

#include <array>

#include "chat_values/operators.h"
#include "chat_values/python_text.h"

namespace megalith::chat {
namespace {

constexpr int64_t kLongestRange = 100000;  // the sandbox's own limit

Value raise_exception(const Arguments& arguments, Budget& budget) {
  const auto bound = arguments.bind("raise_exception", {"message"});
  if (!bound[0]) throw Fault("raise_exception needs a message");
  throw Fault("the template says: {}", str(*bound[0], budget));
}

Value range(const Arguments& arguments, Budget& budget) {
  const Items& given = arguments.positional;
  if (given.empty() || given.size() > 3 || !arguments.keywords.empty())
    throw Fault("range takes one to three whole numbers");
  const auto number = [&](size_t i) { return whole_of(given[i], "an argument of range"); };
  const int64_t begin = given.size() > 1 ? number(0) : 0;
  const int64_t end = given.size() > 1 ? number(1) : number(0);
  const int64_t step = given.size() > 2 ? number(2) : 1;
  if (step == 0) throw Fault("the step of range is 0");
  Items items;
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    if (static_cast<int64_t>(items.size()) == kLongestRange)
      throw Fault("range gives more than {} numbers", kLongestRange);
    items.push_back(Value::integer(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  budget.make(items.size() * sizeof(Value) + sizeof(Sequence));
  auto sequence = std::make_shared<Sequence>();
  sequence->kind = SequenceKind::range;
  sequence->type_name = "range";
  sequence->items = std::move(items);
  sequence->shown = step == 1 ? fmt::format("range({}, {})", begin, end)
                              : fmt::format("range({}, {}, {})", begin, end, step);
  return Value(Value::Held(std::shared_ptr<const Sequence>(std::move(sequence))));
}

Dict dict_of(const Arguments& arguments, Budget& budget) {
  Dict made;
  if (arguments.positional.size() > 1)
    throw Fault("dict takes at most one argument without a name");
  if (!arguments.positional.empty()) {
    const Value& given = arguments.positional[0];
    if (const Dict* dict = given.dict()) {
      for (const auto& [key, value] : dict->entries) made.set(key, value, budget);
    } else {
      for (const Value& pair : items_of(given, budget)) {
        const Items parts = items_of(pair, budget);
        if (parts.size() != 2) throw Fault("dict needs pairs of a key and a value");
        made.set(parts[0], parts[1], budget);
      }
    }
  }
  for (const auto& [name, value] : arguments.keywords)
    made.set(Value::text(name, budget), value, budget);
  return made;
}

Value make_namespace(World& world, const Arguments& arguments, Budget& budget) {
  budget.make(sizeof(Namespace));
  const Dict attributes = dict_of(arguments, budget);
  Namespace& made = world.namespaces.emplace_back();
  for (const auto& [key, value] : attributes.entries) made.set(str(key, budget), value);
  return Value(Value::Held(&made));
}

}  // namespace

std::string format_time(const std::tm& now, const std::string& format) {
  if (format.empty()) return "";
  std::string plain;
  for (size_t i = 0; i < format.size(); ++i) {
    // Python's own: of a time without a zone these two are empty.
    if (format[i] != '%' || i + 1 == format.size()) {
      plain += format[i];
    } else if (const char letter = format[++i]; letter == 'f') {
      throw Fault("strftime_now does not know microseconds (%f)");
    } else if (letter != 'z' && letter != 'Z') {
      plain += {'%', letter};
    }
  }
  // A blank in front tells a text that is empty from one that is too long.
  const std::string asked = " " + plain;
  std::array<char, 1024> buffer{};
  const size_t length = std::strftime(buffer.data(), buffer.size(), asked.c_str(), &now);
  if (length == 0) throw Fault("strftime_now makes more than {} bytes", buffer.size() - 2);
  return {buffer.data() + 1, length - 1};
}

std::optional<Value> find_global(std::string_view name, World& world) {
  if (name == "raise_exception") return make_callable("raise_exception", raise_exception);
  if (name == "range") return make_callable("range", range);
  if (name == "dict")
    return make_callable("dict", [](const Arguments& arguments, Budget& budget) {
      return make_dict(dict_of(arguments, budget), budget);
    });
  if (name == "namespace")
    return make_callable("namespace", [&world](const Arguments& arguments, Budget& budget) {
      return make_namespace(world, arguments, budget);
    });
  if (name == "strftime_now")
    return make_callable("strftime_now", [&world](const Arguments& arguments, Budget& budget) {
      const auto bound = arguments.bind("strftime_now", {"format"});
      if (!bound[0] || !bound[0]->is_text()) throw Fault("strftime_now needs a format");
      return Value::text(format_time(world.now, bound[0]->bytes()), budget);
    });
  for (const std::string_view known : {"lipsum", "cycler", "joiner", "self"})
    if (name == known) throw Fault("Jinja's '{}' is not supported", name);
  return std::nullopt;
}

}  // namespace megalith::chat
