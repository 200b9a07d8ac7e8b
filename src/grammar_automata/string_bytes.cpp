// SPDX-License-Identifier: Apache-2.0
#include "grammar_automata/string_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "characters/utf8.h"

namespace megalith::grammars {
namespace {

constexpr std::pair<uint32_t, char> kShortEscapes[] = {
    {'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}};
constexpr std::array<CodeRange, 3> kHexDigits = {{{'0', '9'}, {'A', 'F'}, {'a', 'f'}}};

/// A bit for each character that JSON does not write as it is: controls, `"` and `\`.
uint64_t special_bit(uint32_t code) {
  return uint64_t{1} << (code == '"' ? 32 : code == '\\' ? 33 : code);
}

uint64_t specials_of(const CodeSet& codes) {
  uint64_t specials = 0;
  for (uint32_t code = 0; code < 0x20; ++code)
    if (codes.contains(code)) specials |= special_bit(code);
  for (const uint32_t code : {uint32_t{'"'}, uint32_t{'\\'}})
    if (codes.contains(code)) specials |= special_bit(code);
  return specials;
}

/// By node: how many plain characters, up to kPlainRun, may follow whatever they are.
std::vector<int> plain_runs(const CodeAutomaton& automaton) {
  const size_t nodes = automaton.nodes.size();
  std::vector<std::vector<uint32_t>> targets(nodes);
  std::vector<int> runs(nodes, 0);
  for (size_t i = 0; i < nodes; ++i) {
    std::vector<CodeRange> covered;
    for (const CodeEdge& edge : automaton.nodes[i].edges) {
      const CodeSet plain = edge.codes.intersected(plain_codes());
      if (plain.empty()) continue;
      covered.insert(covered.end(), plain.ranges().begin(), plain.ranges().end());
      targets[i].push_back(edge.target);
    }
    const CodeSet others = CodeSet(std::move(covered)).complement();
    if (!plain_codes().intersected(others).empty()) targets[i].clear();
  }
  std::vector<int> next(nodes, 0);
  for (int round = 0; round < kPlainRun; ++round) {
    for (size_t i = 0; i < nodes; ++i) {
      int least = targets[i].empty() ? -1 : round;
      for (const uint32_t target : targets[i]) least = std::min(least, runs[target]);
      next[i] = least + 1;
    }
    runs = next;
  }
  return runs;
}

}  // namespace

void append_json_character(std::string& text, uint32_t code) {
  for (const auto& [special, letter] : kShortEscapes)
    if (code == special) return void(text.append({'\\', letter}));
  if (code < 0x20) return void(text += fmt::format("\\u{:04x}", code));
  characters::append_utf8(text, code);
}

std::string json_spelling(std::string_view text) {
  std::string spelled;
  for (size_t at = 0; at < text.size();) {
    const auto [code, length] = characters::read_utf8(text.data() + at);
    append_json_character(spelled, code);
    at += length;
  }
  return spelled;
}

void add_text_automaton(AutomatonBuilder& builder, State from, const CodeAutomaton& automaton,
                        State to) {
  std::vector<State> states;
  const std::vector<int> runs = plain_runs(automaton);
  for (const int run : runs) {
    states.push_back(builder.add_state());
    builder.set_plain_run(states.back(), static_cast<uint64_t>(run));
  }
  builder.add_epsilon(from, states[0]);
  for (size_t i = 0; i < states.size(); ++i) {
    for (const CodeEdge& edge : automaton.nodes[i].edges)
      builder.add_codes(states[i], edge.codes.ranges(), states[edge.target]);
    if (automaton.nodes[i].is_end) builder.add_epsilon(states[i], to);
  }
}

void add_trie(AutomatonBuilder& builder, State from, std::span<const std::string> texts,
              std::optional<char> close, State to) {
  std::vector<State> path = {from};  // by the bytes of the last text
  std::string_view last;
  for (const std::string& text : texts) {
    const auto shared = std::ranges::mismatch(last, text).in1 - last.begin();
    path.resize(static_cast<size_t>(shared) + 1);
    for (size_t at = path.size() - 1; at < text.size(); ++at) {
      path.push_back(builder.add_state());
      builder.add_byte(path[at], text[at], path[at + 1]);
    }
    if (close)
      builder.add_close(path.back(), *close);
    else
      builder.add_epsilon(path.back(), to);
    last = text;
  }
}

/// Behind a backslash: the escapes of these characters.
State StringLevels::escape(uint64_t specials, State to) {
  if (const auto found = escapes_.find({specials, to}); found != escapes_.end())
    return found->second;
  const State state = builder_.add_state();
  uint64_t rest = specials;
  for (const auto& [code, letter] : kShortEscapes) {
    if ((rest & special_bit(code)) == 0) continue;
    builder_.add_byte(state, letter, to);
    rest &= ~special_bit(code);
  }
  if (rest != 0) {
    const State zeros = builder_.add_state();
    builder_.add_text(state, "u00", zeros);
    for (const uint32_t high : {0U, 1U}) {
      std::vector<CodeRange> digits;
      for (uint32_t low = 0; low < 16; ++low) {
        if ((rest & special_bit(high * 16 + low)) == 0) continue;
        const auto digit = static_cast<uint32_t>(low < 10 ? '0' + low : 'a' + low - 10);
        digits.push_back({digit, digit});
      }
      if (digits.empty()) continue;
      const State second = builder_.add_state();
      builder_.add_bytes(zeros, static_cast<uint8_t>('0' + high), static_cast<uint8_t>('0' + high),
                         second);
      builder_.add_codes(second, CodeSet(std::move(digits)).ranges(), to);
    }
  }
  escapes_[{specials, to}] = state;
  return state;
}

void StringLevels::add_character(State from, const CodeSet& codes, State to) {
  builder_.add_codes(from, codes.intersected(plain_codes()).ranges(), to);
  if (const uint64_t specials = specials_of(codes); specials != 0)
    builder_.add_byte(from, '\\', escape(specials, to));
}

void StringLevels::add_any_escape(State from, State to) {
  const State escaped = builder_.add_state(), unicode = builder_.add_state();
  builder_.add_byte(from, '\\', escaped);
  for (const char letter : {'"', '\\', '/', 'b', 'f', 'n', 'r', 't'})
    builder_.add_byte(escaped, letter, to);
  builder_.add_byte(escaped, 'u', unicode);
  const auto hex = [&](State at, std::span<const CodeRange> digits, State next) {
    builder_.add_codes(at, digits, next);
  };
  // Three digits, two and one to go, and of a character beyond FFFF both halves.
  State left[4];
  left[0] = to;
  for (int i = 1; i < 4; ++i) hex(left[i] = builder_.add_state(), kHexDigits, left[i - 1]);
  constexpr std::array<CodeRange, 5> kButD = {
      {{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}}};
  constexpr std::array<CodeRange, 2> kD = {{{'D', 'D'}, {'d', 'd'}}};
  constexpr std::array<CodeRange, 1> kNoHalf = {{{'0', '7'}}};
  constexpr std::array<CodeRange, 3> kHighHalf = {{{'8', '9'}, {'A', 'B'}, {'a', 'b'}}};
  constexpr std::array<CodeRange, 2> kLowHalf = {{{'C', 'F'}, {'c', 'f'}}};
  hex(unicode, kButD, left[3]);
  const State d = builder_.add_state(), high = builder_.add_state(), more = builder_.add_state(),
              half = builder_.add_state(), second = builder_.add_state(),
              low = builder_.add_state();
  hex(unicode, kD, d);
  hex(d, kNoHalf, left[2]);
  hex(d, kHighHalf, high);
  hex(high, kHexDigits, more);
  hex(more, kHexDigits, half);
  builder_.add_text(half, "\\u", second);
  hex(second, kD, low);
  hex(low, kLowHalf, left[2]);
}

State StringLevels::any() {
  if (any_) return *any_;
  const State state = builder_.add_state();
  builder_.set_plain_run(state, kPlainRun);
  builder_.add_codes(state, plain_codes().ranges(), state);
  add_any_escape(state, state);
  builder_.add_close(state, '"');
  any_ = state;
  return state;
}

State StringLevels::of_length(uint64_t least, std::optional<uint64_t> most) {
  if (least == 0 && !most) return any();
  const auto key = std::pair(least, most);
  if (const auto found = of_length_.find(key); found != of_length_.end()) return found->second;
  const State begin = builder_.add_state();
  const uint64_t characters = most.value_or(least);
  State at = begin;
  for (uint64_t length = 0;; ++length) {
    builder_.set_plain_run(at, most ? characters - length : kPlainRun);
    if (length >= least) builder_.add_close(at, '"');
    if (length == characters) break;
    const State next = builder_.add_state();
    add_character(at, CodeSet::all(), next);
    at = next;
  }
  if (!most) add_character(at, CodeSet::all(), at);
  of_length_[key] = begin;
  return begin;
}

State StringLevels::of(const CodeAutomaton& automaton) {
  const std::vector<int> runs = plain_runs(automaton);
  std::vector<State> states;
  for (const int run : runs) {
    states.push_back(builder_.add_state());
    builder_.set_plain_run(states.back(), static_cast<uint64_t>(run));
  }
  for (size_t i = 0; i < states.size(); ++i) {
    for (const CodeEdge& edge : automaton.nodes[i].edges)
      add_character(states[i], edge.codes, states[edge.target]);
    if (automaton.nodes[i].is_end) builder_.add_close(states[i], '"');
  }
  return states[0];
}

State StringLevels::one_of(std::vector<std::string> texts) {
  for (std::string& text : texts) text = json_spelling(text);
  std::ranges::sort(texts);
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  const State begin = builder_.add_state();
  add_trie(builder_, begin, texts, '"', begin);
  return begin;
}

}  // namespace megalith::grammars
