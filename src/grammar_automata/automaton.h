// SPDX-License-Identifier: Apache-2.0
// What a grammar is compiled to: a nondeterministic automaton over bytes whose edges may also open
// and close a level. Only the bytes that delimit JSON's strings, lists and objects do so, which is
// what makes the machine simple: where a byte opens a level for one way of reading the text so far,
// it does for every way, so all ways share one stack (a visibly pushdown automaton: Alur and
// Madhusudan 2004). Regular languages are automata that open nothing.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "characters/code_ranges.h"

namespace megalith::grammars {

using State = uint32_t;

/// Characters that JSON writes as they are in a string.
constexpr bool is_plain(uint32_t code) { return code >= 0x20 && code != '"' && code != '\\'; }
/// How far plain characters are looked ahead (Automaton::plain_run, TokenTrie).
inline constexpr int kPlainRun = 16;

enum class EdgeKind : uint8_t {
  bytes,    // reads a byte of first..last, goes on at `target`
  epsilon,  // goes on at `target`
  open,     // reads `first`; a level above begins at `callee`; once that is closed, `target`
  close,    // reads `first` and ends the level
};

struct Edge {
  EdgeKind kind;
  uint8_t first;
  uint8_t last;
  State target;
  State callee;
};

/// Immutable. Every state can reach the end, whatever the levels below it.
class Automaton {
 public:
  State start() const { return start_; }
  State end() const { return end_; }
  size_t num_states() const { return begin_.size() - 1; }
  std::span<const Edge> edges(State state) const {
    return std::span(edges_).subspan(begin_[state], begin_[state + 1] - begin_[state]);
  }
  /// Whether a byte may be read here, or the text end: else it is only passed through.
  bool may_rest(State state) const { return may_rest_[state]; }
  /// At least so many plain characters, up to kPlainRun, whatever they are, may be read from here
  /// without leaving the level.
  uint8_t plain_run(State state) const { return plain_run_[state]; }
  /// Bytes that no edge tells apart have one class.
  int num_classes() const { return num_classes_; }
  int class_of(uint8_t byte) const { return class_of_[byte]; }
  size_t bytes() const;

 private:
  friend class AutomatonBuilder;
  State start_ = 0, end_ = 0;
  std::vector<uint32_t> begin_;
  std::vector<Edge> edges_;
  std::vector<uint8_t> plain_run_;
  std::vector<bool> may_rest_;
  std::array<uint8_t, 256> class_of_{};
  int num_classes_ = 1;
};

class AutomatonBuilder {
 public:
  /// Larger grammars are refused.
  static constexpr size_t kMostStates = size_t{1} << 20;
  static constexpr size_t kMostEdges = size_t{1} << 22;

  /// UserError beyond the limit.
  State add_state();
  void add_bytes(State from, uint8_t first, uint8_t last, State to) {
    add_edge(from, {EdgeKind::bytes, first, last, to, 0});
  }
  void add_byte(State from, char byte, State to) {
    add_bytes(from, static_cast<uint8_t>(byte), static_cast<uint8_t>(byte), to);
  }
  void add_epsilon(State from, State to) { add_edge(from, {EdgeKind::epsilon, 0, 0, to, 0}); }
  void add_open(State from, char byte, State callee, State to) {
    const auto b = static_cast<uint8_t>(byte);
    add_edge(from, {EdgeKind::open, b, b, to, callee});
  }
  void add_close(State from, char byte) {
    const auto b = static_cast<uint8_t>(byte);
    add_edge(from, {EdgeKind::close, b, b, 0, 0});
  }
  void add_text(State from, std::string_view bytes, State to);
  /// One character of the ranges (ascending, scalar values), as UTF-8.
  void add_codes(State from, std::span<const characters::CodeRange> ranges, State to);
  /// See Automaton::plain_run.
  void set_plain_run(State state, uint64_t run);
  size_t num_states() const { return plain_run_.size(); }

  /// The automaton without what cannot reach `end`. UserError, beginning with `what`, if nothing
  /// can.
  Automaton finish(State start, State end, std::string_view what) &&;

 private:
  struct Placed {
    State from;
    Edge edge;
  };
  void add_edge(State from, const Edge& edge);
  State continuation(State to, int bytes);
  void add_code_range(State from, uint32_t first, uint32_t last, State to);
  void add_sequences(State from, std::span<const uint8_t> first, std::span<const uint8_t> last,
                     State to);
  std::vector<bool> find_productive(State end) const;
  static void classify(Automaton& automaton);

  std::vector<Placed> edges_;
  std::vector<uint8_t> plain_run_;
  std::map<std::pair<State, int>, State> continuations_;  // any so many bytes of a character's rest
};

}  // namespace megalith::grammars
