// SPDX-License-Identifier: Apache-2.0
#include "grammar_automata/automaton.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "characters/utf8.h"

namespace megalith::grammars {
namespace {

constexpr uint32_t kLastOfLength[] = {0x7F, 0x7FF, 0xFFFF, 0x10FFFF};

std::span<const uint8_t> as_bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

bool all_are(std::span<const uint8_t> bytes, uint8_t value) {
  return std::ranges::all_of(bytes, [=](uint8_t byte) { return byte == value; });
}

}  // namespace

size_t Automaton::bytes() const {
  return edges_.size() * sizeof(Edge) + begin_.size() * sizeof(uint32_t) + plain_run_.size();
}

State AutomatonBuilder::add_state() {
  if (plain_run_.size() == kMostStates)
    throw UserError("the grammar is too large: it needs more than {} states", kMostStates);
  plain_run_.push_back(0);
  return static_cast<State>(plain_run_.size() - 1);
}

void AutomatonBuilder::add_edge(State from, const Edge& edge) {
  if (edges_.size() == kMostEdges)
    throw UserError("the grammar is too large: it needs more than {} edges", kMostEdges);
  edges_.push_back({from, edge});
}

void AutomatonBuilder::set_plain_run(State state, uint64_t run) {
  plain_run_[state] = static_cast<uint8_t>(std::min<uint64_t>(run, kPlainRun));
}

void AutomatonBuilder::add_text(State from, std::string_view bytes, State to) {
  if (bytes.empty()) return add_epsilon(from, to);
  for (const char& byte : bytes) {
    const State next = &byte == &bytes.back() ? to : add_state();
    add_byte(from, byte, next);
    from = next;
  }
}

State AutomatonBuilder::continuation(State to, int bytes) {
  if (bytes == 0) return to;
  if (const auto found = continuations_.find({to, bytes}); found != continuations_.end())
    return found->second;
  const State state = add_state();
  add_bytes(state, 0x80, 0xBF, continuation(to, bytes - 1));
  return continuations_[{to, bytes}] = state;
}

// Sequences of equal length from `first` to `last`, ascending.
void AutomatonBuilder::add_sequences(State from, std::span<const uint8_t> first,
                                     std::span<const uint8_t> last, State to) {
  const auto rest = static_cast<int>(first.size()) - 1;
  if (rest == 0) return add_bytes(from, first[0], last[0], to);
  const auto first_rest = first.subspan(1), last_rest = last.subspan(1);
  if (first[0] == last[0]) {
    if (all_are(first_rest, 0x80) && all_are(last_rest, 0xBF))
      return add_bytes(from, first[0], first[0], continuation(to, rest));
    const State next = add_state();
    add_bytes(from, first[0], first[0], next);
    return add_sequences(next, first_rest, last_rest, to);
  }
  int low = first[0], high = last[0];
  const std::vector<uint8_t> least(first_rest.size(), 0x80), most(first_rest.size(), 0xBF);
  if (!all_are(first_rest, 0x80)) {
    const State next = add_state();
    add_bytes(from, first[0], first[0], next);
    add_sequences(next, first_rest, most, to);
    ++low;
  }
  if (!all_are(last_rest, 0xBF)) {
    const State next = add_state();
    add_bytes(from, last[0], last[0], next);
    add_sequences(next, least, last_rest, to);
    --high;
  }
  if (low <= high)
    add_bytes(from, static_cast<uint8_t>(low), static_cast<uint8_t>(high), continuation(to, rest));
}

void AutomatonBuilder::add_code_range(State from, uint32_t first, uint32_t last, State to) {
  for (const uint32_t most : kLastOfLength) {
    if (first > most || first > last) continue;
    const uint32_t end = std::min(last, most);
    std::string low, high;
    characters::append_utf8(low, first);
    characters::append_utf8(high, end);
    add_sequences(from, as_bytes(low), as_bytes(high), to);
    first = end + 1;
  }
}

void AutomatonBuilder::add_codes(State from, std::span<const characters::CodeRange> ranges,
                                 State to) {
  for (const characters::CodeRange& range : ranges) {
    // UTF-8 has no surrogates, and of a range across them both parts.
    if (range.first < 0xD800) add_code_range(from, range.first, std::min(range.last, 0xD7FFU), to);
    if (range.last > 0xDFFF) add_code_range(from, std::max(range.first, 0xE000U), range.last, to);
  }
}

/// Which states can reach the end of their level, or `end`.
std::vector<bool> AutomatonBuilder::find_productive(State end) const {
  const size_t states = plain_run_.size();
  std::vector<bool> productive(states, false);
  // Edges by the states they wait for: an opening one for two.
  std::vector<uint32_t> begin(states + 2, 0), waiting;
  const auto each = [&](const auto& visit) {
    for (size_t i = 0; i < edges_.size(); ++i) {
      const Edge& edge = edges_[i].edge;
      if (edge.kind == EdgeKind::close) continue;
      visit(edge.target, static_cast<uint32_t>(i));
      if (edge.kind == EdgeKind::open) visit(edge.callee, static_cast<uint32_t>(i));
    }
  };
  each([&](State state, uint32_t) { ++begin[state + 2]; });
  for (size_t i = 2; i < begin.size(); ++i) begin[i] += begin[i - 1];
  waiting.resize(begin.back());
  each([&](State state, uint32_t edge) { waiting[begin[state + 1]++] = edge; });

  std::vector<State> found;
  const auto find = [&](State state) {
    if (productive[state]) return;
    productive[state] = true;
    found.push_back(state);
  };
  find(end);
  for (const Placed& placed : edges_)
    if (placed.edge.kind == EdgeKind::close) find(placed.from);
  while (!found.empty()) {
    const State state = found.back();
    found.pop_back();
    for (uint32_t i = begin[state]; i < begin[state + 1]; ++i) {
      const auto& [from, edge] = edges_[waiting[i]];
      if (productive[edge.target] && (edge.kind != EdgeKind::open || productive[edge.callee]))
        find(from);
    }
  }
  return productive;
}

void AutomatonBuilder::classify(Automaton& automaton) {
  std::array<bool, 257> begins{};
  for (const Edge& edge : automaton.edges_) {
    if (edge.kind == EdgeKind::epsilon) continue;
    begins[edge.first] = begins[edge.last + 1] = true;
  }
  int number = 0;
  for (size_t byte = 0; byte < 256; ++byte) {
    if (byte > 0 && begins[byte]) ++number;
    automaton.class_of_[byte] = static_cast<uint8_t>(number);
  }
  automaton.num_classes_ = number + 1;
}

Automaton AutomatonBuilder::finish(State start, State end, std::string_view what) && {
  const std::vector<bool> productive = find_productive(end);
  if (!productive[start]) throw UserError("{}: no text fits it", what);
  std::erase_if(edges_, [&](const Placed& placed) {
    const Edge& edge = placed.edge;
    if (!productive[placed.from]) return true;
    if (edge.kind == EdgeKind::close) return false;
    return !productive[edge.target] || (edge.kind == EdgeKind::open && !productive[edge.callee]);
  });
  Automaton automaton;
  automaton.start_ = start;
  automaton.end_ = end;
  automaton.plain_run_ = std::move(plain_run_);
  automaton.begin_.assign(automaton.plain_run_.size() + 1, 0);
  for (const Placed& placed : edges_) ++automaton.begin_[placed.from + 1];
  for (size_t i = 1; i < automaton.begin_.size(); ++i)
    automaton.begin_[i] += automaton.begin_[i - 1];
  std::vector<uint32_t> at(automaton.begin_.begin(), automaton.begin_.end() - 1);
  automaton.edges_.resize(edges_.size());
  for (const Placed& placed : edges_) automaton.edges_[at[placed.from]++] = placed.edge;
  automaton.may_rest_.assign(automaton.num_states(), false);
  automaton.may_rest_[end] = true;
  for (const Placed& placed : edges_)
    if (placed.edge.kind != EdgeKind::epsilon) automaton.may_rest_[placed.from] = true;
  classify(automaton);
  return automaton;
}

}  // namespace megalith::grammars
