// SPDX-License-Identifier: Apache-2.0
#include "grammar_automata/regex_syntax.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/one_line.h"
#include "characters/utf8.h"

namespace megalith::grammars {
namespace {

constexpr int kMostGroups = 100;  // within each other
constexpr uint32_t kMostRepeats = 10'000;

const CodeSet& digits() {
  static const CodeSet codes({{'0', '9'}});
  return codes;
}
const CodeSet& words() {
  static const CodeSet codes({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
  return codes;
}
// ECMAScript's WhiteSpace and LineTerminator.
const CodeSet& spaces() {
  static const CodeSet codes({{9, 13},
                              {' ', ' '},
                              {0xA0, 0xA0},
                              {0x1680, 0x1680},
                              {0x2000, 0x200A},
                              {0x2028, 0x2029},
                              {0x202F, 0x202F},
                              {0x205F, 0x205F},
                              {0x3000, 0x3000},
                              {0xFEFF, 0xFEFF}});
  return codes;
}
const CodeSet& line_ends() {
  static const CodeSet codes({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}});
  return codes;
}

CodeSet one(uint32_t code) { return CodeSet({{code, code}}); }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {
    characters::require_utf8(text, "the expression");
  }

  RegexTree parse() {
    tree_.root = alternatives();
    if (!at_end()) fail("')' without a group");
    return std::move(tree_);
  }

 private:
  bool at_end() const { return at_ == text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw UserError("expression '{}', byte {}: {}", one_line(text_, 200), at_, what);
  }
  uint32_t add(RegexNode node) {
    tree_.nodes.push_back(std::move(node));
    return static_cast<uint32_t>(tree_.nodes.size() - 1);
  }

  uint32_t alternatives() {
    if (++depth_ > kMostGroups) fail("groups are nested too deeply");
    RegexNode node{RegexKind::alternatives, {}, {sequence()}, 0, {}};
    while (take("|")) node.children.push_back(sequence());
    --depth_;
    return node.children.size() == 1 ? node.children[0] : add(std::move(node));
  }

  uint32_t sequence() {
    RegexNode node{RegexKind::sequence, {}, {}, 0, {}};
    while (!at_end() && peek() != '|' && peek() != ')') node.children.push_back(repeated());
    return node.children.size() == 1 ? node.children[0] : add(std::move(node));
  }

  uint32_t repeated() {
    const size_t begin = at_;
    const uint32_t child = atom();
    RegexNode node{RegexKind::repeat, {}, {child}, 0, {}};
    if (take("*")) {
    } else if (take("+")) {
      node.least = 1;
    } else if (take("?")) {
      node.most = 1;
    } else if (peek() == '{') {
      braces(node);
    } else {
      return child;
    }
    const RegexKind kind = tree_.nodes[child].kind;
    if (kind == RegexKind::begin || kind == RegexKind::end) {
      at_ = begin;
      fail("nothing to repeat");
    }
    take("?");
    if (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{')
      fail("a repetition of a repetition; possessive ones are not supported");
    return add(std::move(node));
  }

  std::optional<uint32_t> number() {
    if (peek() < '0' || peek() > '9') return std::nullopt;
    uint64_t value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      value = value * 10 + static_cast<uint64_t>(peek() - '0');
      if (value > kMostRepeats) fail("more than " + std::to_string(kMostRepeats) + " repetitions");
    }
    return static_cast<uint32_t>(value);
  }

  void braces(RegexNode& node) {
    take("{");
    const std::optional<uint32_t> least = number();
    if (!least) fail("a number is missing behind '{'; a brace itself is \\{");
    node.least = *least;
    node.most = least;
    if (take(",")) node.most = number();
    if (!take("}")) fail("'}' is missing");
    if (node.most && *node.most < node.least) fail("the numbers of a repetition are out of order");
  }

  uint32_t atom() {
    if (take("(")) return group();
    if (take("[")) return add({RegexKind::codes, character_class(), {}, 0, {}});
    if (take(".")) return add({RegexKind::codes, line_ends().complement(), {}, 0, {}});
    if (take("^")) return add({RegexKind::begin, {}, {}, 0, {}});
    if (take("$")) return add({RegexKind::end, {}, {}, 0, {}});
    if (take("\\")) return add({RegexKind::codes, escape(false), {}, 0, {}});
    for (const char special : {'*', '+', '?', '{', '}', ']'})
      if (peek() == special) fail(std::string("'") + special + "' without what it belongs to");
    return add({RegexKind::codes, one(character()), {}, 0, {}});
  }

  uint32_t group() {
    if (take("?")) {
      if (take("<")) {
        if (peek() == '=' || peek() == '!') fail("look-behind is not supported");
        while (!at_end() && peek() != '>') ++at_;
        if (!take(">")) fail("the name of a group has no end");
      } else if (peek() == '=' || peek() == '!') {
        fail("look-ahead is not supported");
      } else if (!take(":")) {
        fail("this kind of group is not supported");
      }
    }
    const uint32_t inner = alternatives();
    if (!take(")")) fail("')' is missing");
    return inner;
  }

  uint32_t character() {
    const auto [code, length] = characters::read_utf8(text_.data() + at_);
    at_ += length;
    return code;
  }

  uint32_t hex(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) fail("a hexadecimal digit is missing");
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    return value;
  }

  uint32_t unicode() {
    if (take("{")) {
      const size_t end = std::min(text_.find('}', at_), text_.size());
      if (end == at_ || end - at_ > 6) fail("\\u{...} takes one to six digits");
      const uint32_t code = hex(static_cast<int>(end - at_));
      if (!take("}") || code > 0x10FFFF) fail("\\u{...} names no character");
      return code;
    }
    const uint32_t high = hex(4);
    if (high < 0xD800 || high > 0xDFFF) return high;
    if (high > 0xDBFF || !take("\\u")) fail("half a surrogate pair");
    const uint32_t low = hex(4);
    if (low < 0xDC00 || low > 0xDFFF) fail("half a surrogate pair");
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }

  /// What follows a backslash.
  CodeSet escape(bool in_class) {
    if (at_end()) fail("a backslash at the end");
    switch (const char c = text_[at_++]) {
      case 'd':
        return digits();
      case 'D':
        return digits().complement();
      case 'w':
        return words();
      case 'W':
        return words().complement();
      case 's':
        return spaces();
      case 'S':
        return spaces().complement();
      case 't':
        return one('\t');
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case 'x':
        return one(hex(2));
      case 'u':
        return one(unicode());
      case '0':
        if (peek() >= '0' && peek() <= '9') fail("octal escapes are not supported");
        return one(0);
      case 'b':
        if (in_class) return one('\b');
        [[fallthrough]];
      case 'B':
        fail("word boundaries are not supported");
      case 'p':
      case 'P':
        fail("\\p is not supported");
      default:
        if (c >= '1' && c <= '9') fail("back references are not supported");
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
          fail(std::string("\\") + c + " is not supported");
        --at_;
        return one(character());
    }
  }

  CodeSet member() {
    if (take("\\")) return escape(true);
    return one(character());
  }

  static bool is_one(const CodeSet& set) {
    return set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].last;
  }

  CodeSet character_class() {
    const bool negated = take("^");
    std::vector<CodeRange> ranges;
    while (peek() != ']' || at_end()) {
      if (at_end()) fail("']' is missing");
      const CodeSet low = member();
      if (peek() != '-' || at_ + 1 >= text_.size() || text_[at_ + 1] == ']') {
        ranges.insert(ranges.end(), low.ranges().begin(), low.ranges().end());
        continue;
      }
      take("-");
      const CodeSet high = member();
      if (!is_one(low) || !is_one(high)) fail("a class at an end of a range");
      const uint32_t first = low.ranges()[0].first, last = high.ranges()[0].first;
      if (first > last) fail("a range out of order");
      ranges.push_back({first, last});
    }
    take("]");
    const CodeSet set(std::move(ranges));
    return negated ? set.complement() : set;
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  RegexTree tree_;
};

}  // namespace

RegexTree parse_regex(std::string_view expression) { return Parser(expression).parse(); }

}  // namespace megalith::grammars
