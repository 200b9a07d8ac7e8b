// SPDX-License-Identifier: Apache-2.0
// Values as Python spells them.
#include <unicode/uchar.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "characters/utf8.h"
#include "chat_values/python_text.h"

namespace megalith::chat {
namespace {

/// Text that grows within the budget.
class Printer {
 public:
  explicit Printer(Budget& budget) : budget_(budget) {}
  void add(std::string_view part) {
    budget_.make(part.size() + 1);
    text_ += part;
  }
  std::string take() { return std::move(text_); }

 private:
  Budget& budget_;
  std::string text_;
};

void spell(const Value& value, Printer& out, Budget& budget);

void spell_items(const Items& items, Printer& out, Budget& budget) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.add(", ");
    spell(items[i], out, budget);
  }
}

void spell_sequence(const Sequence& sequence, Printer& out, Budget& budget) {
  if (sequence.kind == SequenceKind::iterator)
    throw Fault("a generator cannot be printed; give it to the filter 'list' first");
  if (sequence.kind == SequenceKind::range && sequence.shown.empty())
    throw Fault("a slice of a range cannot be printed; give it to the filter 'list' first");
  if (sequence.kind == SequenceKind::range) return out.add(sequence.shown);
  const bool is_tuple = sequence.kind == SequenceKind::tuple;
  if (sequence.kind == SequenceKind::view) out.add(sequence.type_name + "(");
  out.add(is_tuple ? "(" : "[");
  spell_items(sequence.items, out, budget);
  if (is_tuple) out.add(sequence.items.size() == 1 ? ",)" : ")");
  if (!is_tuple) out.add("]");
  if (sequence.kind == SequenceKind::view) out.add(")");
}

void spell(const Value& value, Printer& out, Budget& budget) {
  const Budget::Level level(budget);
  budget.step();
  if (value.is_undefined()) {
    out.add("Undefined");
  } else if (value.is_none()) {
    out.add("None");
  } else if (const bool* truth = value.get_if<bool>()) {
    out.add(*truth ? "True" : "False");
  } else if (const int64_t* whole = value.get_if<int64_t>()) {
    out.add(fmt::format("{}", *whole));
  } else if (const double* real = value.get_if<double>()) {
    out.add(repr_float(*real));
  } else if (value.is_text()) {
    budget.make(value.bytes().size());
    out.add(value.is_safe_text() ? "Markup(" : "");
    out.add(repr_text(value.bytes()));
    out.add(value.is_safe_text() ? ")" : "");
  } else if (const Sequence* sequence = value.sequence()) {
    spell_sequence(*sequence, out, budget);
  } else if (const Dict* dict = value.dict()) {
    out.add("{");
    for (size_t i = 0; i < dict->entries.size(); ++i) {
      if (i > 0) out.add(", ");
      spell(dict->entries[i].first, out, budget);
      out.add(": ");
      spell(dict->entries[i].second, out, budget);
    }
    out.add("}");
  } else {
    throw Fault("a value of type '{}' cannot be printed", type_name(value));
  }
}

void escape_code(std::string& out, uint32_t code) {
  if (code < 0x100)
    out += fmt::format("\\x{:02x}", code);
  else if (code < 0x10000)
    out += fmt::format("\\u{:04x}", code);
  else
    out += fmt::format("\\U{:08x}", code);
}

bool is_printable(uint32_t code) {
  if (code < 0x7F) return code >= 0x20;
  switch (u_charType(static_cast<UChar32>(code))) {
    case U_CONTROL_CHAR:
    case U_FORMAT_CHAR:
    case U_SURROGATE:
    case U_PRIVATE_USE_CHAR:
    case U_UNASSIGNED:
    case U_LINE_SEPARATOR:
    case U_PARAGRAPH_SEPARATOR:
    case U_SPACE_SEPARATOR:
      return false;
    default:
      return true;
  }
}

}  // namespace

std::string repr_text(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const auto point = characters::read_utf8(text.data() + at);
    const auto code = point.code;
    if (code == static_cast<uint32_t>(quote) || code == '\\') {
      out += '\\';
      out += static_cast<char>(code);
    } else if (code == '\n') {
      out += "\\n";
    } else if (code == '\r') {
      out += "\\r";
    } else if (code == '\t') {
      out += "\\t";
    } else if (is_printable(code)) {
      out += text.substr(at, point.length);
    } else {
      escape_code(out, code);
    }
    at += point.length;
  }
  return out + quote;
}

// The shortest digits that give the number back, in Python's layout: with an exponent from 1e16 on
// and below 1e-4.
std::string repr_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  std::string digits(buffer, end.ptr);
  const std::string sign = digits[0] == '-' ? "-" : "";
  digits.erase(0, sign.size());
  const size_t mark = digits.find('e');
  const int exponent = std::stoi(digits.substr(mark + 1));
  digits.resize(mark);
  std::erase(digits, '.');
  if (exponent < -4 || exponent >= 16) {
    if (digits.size() > 1) digits.insert(1, ".");
    return fmt::format("{}{}e{}{:02}", sign, digits, exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string repr(const Value& value, Budget& budget) {
  Printer out(budget);
  spell(value, out, budget);
  return out.take();
}

std::string str(const Value& value, Budget& budget) {
  if (value.is_undefined()) return "";
  if (value.is_text()) {
    budget.look(value.bytes().size());
    return value.bytes();
  }
  return repr(value, budget);
}

}  // namespace megalith::chat
