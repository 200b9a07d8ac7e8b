// SPDX-License-Identifier: Apache-2.0
// Values as Python's json.dumps writes them.
#include <algorithm>
#include <cmath>

#include "characters/utf8.h"
#include "chat_values/python_text.h"

namespace megalith::chat {
namespace {

class JsonPrinter {
 public:
  JsonPrinter(const JsonStyle& style, Budget& budget) : style_(style), budget_(budget) {}

  void value(const Value& value) {
    const Budget::Level level(budget_);
    budget_.step();
    if (value.is_none()) {
      add("null");
    } else if (const bool* truth = value.get_if<bool>()) {
      add(*truth ? "true" : "false");
    } else if (const int64_t* whole = value.get_if<int64_t>()) {
      add(fmt::format("{}", *whole));
    } else if (const double* real = value.get_if<double>()) {
      add(real_number(*real));
    } else if (value.is_text()) {
      text(value.bytes());
    } else if (const Dict* dict = value.dict()) {
      object(*dict);
    } else if (const Sequence* sequence = value.sequence();
               sequence && sequence->kind <= SequenceKind::tuple) {
      list(sequence->items);
    } else {
      throw Fault("an object of type {} has no form in JSON (filter tojson)", type_name(value));
    }
  }
  std::string take() { return std::move(text_); }

 private:
  void add(std::string_view part) {
    budget_.make(part.size() + 1);
    text_ += part;
  }

  static std::string real_number(double real) {
    if (std::isnan(real)) return "NaN";
    if (std::isinf(real)) return real < 0 ? "-Infinity" : "Infinity";
    return repr_float(real);
  }

  void line() {
    if (!style_.indent) return;
    add("\n");
    for (size_t i = 0; i < depth_; ++i) add(*style_.indent);
  }

  void list(const Items& items) {
    if (items.empty()) return add("[]");
    add("[");
    ++depth_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) add(style_.item_separator);
      line();
      value(items[i]);
    }
    --depth_;
    line();
    add("]");
  }

  void object(const Dict& dict) {
    if (dict.entries.empty()) return add("{}");
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      for (const auto* entry : entries)
        if (!entry->first.is_text()) throw Fault("the filter tojson sorts keys that are text only");
      std::stable_sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) {
        return a->first.bytes() < b->first.bytes();
      });
    }
    add("{");
    ++depth_;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) add(style_.item_separator);
      line();
      text(key(entries[i]->first));
      add(style_.key_separator);
      value(entries[i]->second);
    }
    --depth_;
    line();
    add("}");
  }

  std::string key(const Value& value) {
    if (value.is_text()) return value.bytes();
    if (value.is_none()) return "null";
    if (const bool* truth = value.get_if<bool>()) return *truth ? "true" : "false";
    if (const int64_t* whole = value.get_if<int64_t>()) return fmt::format("{}", *whole);
    if (const double* real = value.get_if<double>()) return real_number(*real);
    throw Fault("a key of type {} has no form in JSON (filter tojson)", type_name(value));
  }

  void text(std::string_view bytes) {
    budget_.make(bytes.size());
    std::string out = "\"";
    for (size_t at = 0; at < bytes.size();) {
      const auto point = characters::read_utf8(bytes.data() + at);
      if (!escape(out, point.code)) out += bytes.substr(at, point.length);
      at += point.length;
    }
    add(out + "\"");
  }

  bool escape(std::string& out, uint32_t code) const {
    static constexpr std::string_view kNamed = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
    const size_t named =
        code < 0x80 ? kNamed.find(static_cast<char>(code)) : std::string_view::npos;
    if (named != std::string_view::npos) {
      out += '\\';
      out += kLetters[named];
    } else if (code < 0x20 || (style_.ensure_ascii && code > 0x7E && code < 0x10000)) {
      out += fmt::format("\\u{:04x}", code);
    } else if (style_.ensure_ascii && code >= 0x10000) {
      const uint32_t rest = code - 0x10000;
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
    } else {
      return false;
    }
    return true;
  }

  const JsonStyle& style_;
  Budget& budget_;
  std::string text_;
  size_t depth_ = 0;
};

}  // namespace

std::string to_json(const Value& value, const JsonStyle& style, Budget& budget) {
  JsonPrinter printer(style, budget);
  printer.value(value);
  return printer.take();
}

}  // namespace megalith::chat
