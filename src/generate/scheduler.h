// SPDX-License-Identifier: Apache-2.0
// Which tokens of which sequences go into the next pass (continuous batching: Yu et al. 2022; long
// prompts in chunks beside those that write: Agrawal et al. 2024). Knows neither model nor clock:
// decides on lengths and blocks alone, so that it can be run without either.
//
//   - Each sequence that writes gets its one token in every pass; prompts share what is left of a
//     pass in order of admission; then others are admitted.
//   - Where blocks run out, the sequence admitted last gives its own up and waits, first in line,
//     to be read again. The one admitted first always goes on, so everything ends.
//   - Of those that wait, the client that was served the fewest tokens is next; one that comes back
//     has no credit from the time it was away (Sheng et al. 2024).
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "generate/block_store.h"

namespace megalith::generate {

/// Tokens in their order, and the blocks of those that were read.
struct Line {
  std::vector<int32_t> ids;       // the prompt, then what was written
  std::vector<int32_t> proposed;  // guesses of what comes behind them, to be read with the last
  int64_t past = 0;               // of ids, that were read (running); the scheduler's, as `held`
  BlockStore::Held held;
  int64_t rest() const { return std::ssize(ids) - past; }
};

/// One sequence as the scheduler sees it; its owner's, at a fixed address from submit() to leave().
struct Sequence : Line {
  uint64_t number = 0;  // the owner's
  std::string client;
  uint64_t salt = 0;   // tells apart what reads the same ids differently (BlockStore::begin)
  int64_t memory = 0;  // tokens that an encoder read for it
  int64_t most = 0;    // positions that it may come to have
  /// So many of its first positions at most are taken as known: the others it wants to read.
  int64_t may_find = kAll;
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

  /// Of a search that goes on from several texts at once: lines beside the first (branch()), of the
  /// same length, and how many lines there may come to be.
  std::vector<Line> beside;
  int64_t width = 1;
  Line& line(size_t i) { return i == 0 ? *this : beside[i - 1]; }
  const Line& line(size_t i) const { return i == 0 ? *this : beside[i - 1]; }
  size_t num_lines() const { return 1 + beside.size(); }

  /// The scheduler's.
  enum class State : uint8_t { outside, waiting, running } state = State::outside;
  int64_t preemptions = 0;
  int64_t found = 0;   // positions that were known when it was admitted last
  int64_t common = 0;  // that its lines, read again, share
};

class Scheduler {
 public:
  struct Limits {
    int64_t sequences = 32;  // running at once
    int64_t tokens = 512;    // of a pass; at least as many as sequences
    int64_t waiting = 128;
  };
  /// `blocks` must outlive it, and have been made for passes of `limits.tokens`.
  Scheduler(BlockStore& blocks, const Limits& limits);

  /// Of one that has only its prompt yet.
  static BlockStore::Size size_of(const Sequence& sequence);

  /// Whether there is a place in the queue; then it waits. It must fit (BlockStore::can_hold).
  bool submit(Sequence& sequence);
  /// Tokens [past, past + count) of a line: of its ids, then of what is proposed.
  struct Part {
    Sequence* sequence = nullptr;
    size_t index = 0;  // of the line
    int64_t count = 0;
    const Line& line() const { return sequence->line(index); }
    /// What follows its last token, and each that is proposed, is to be chosen. Then the parts of
    /// all lines of the sequence are.
    bool is_last() const { return count >= line().rest(); }
  };
  /// The next pass, those that write first; empty when there is nothing to do. The blocks' copies
  /// are to be made before it, and advance() is to follow before any other call.
  const std::vector<Part>& plan();
  /// The pass was made. Of sequences whose parts were the last, the owner then appends a token to
  /// each line or lets them leave.
  void advance();
  /// The first `count` that were proposed to a sequence of one line are tokens that the owner has
  /// appended, and so were read already.
  void advance_proposed(Sequence& sequence, int64_t count);
  /// The lines of a running sequence become copies of those at `parents`, at most `width` of them.
  void branch(Sequence& sequence, std::span<const size_t> parents);
  /// In any state; its blocks are free.
  void leave(Sequence& sequence);

  int64_t running() const { return std::ssize(running_); }
  int64_t waiting() const { return num_waiting_; }
  int64_t preemptions() const { return preemptions_; }
  /// Tokens of the pass that was planned last.
  int64_t planned_tokens() const { return limits_.tokens - left_; }
  /// Tokens of what was admitted, again after a preemption too, and how many of them were known.
  int64_t prefix_queries() const { return prefix_queries_; }
  int64_t prefix_hits() const { return prefix_hits_; }

 private:
  struct Client {
    std::deque<Sequence*> waiting;
    int64_t served = 0;  // tokens
    int64_t here = 0;    // sequences waiting or running
  };
  bool grow(Sequence& sequence, size_t index, int64_t count);
  bool grow_all(Sequence& sequence);
  void preempt_last();
  void add(Sequence& sequence, size_t index, int64_t count);
  void plan_writing();
  void plan_proposed();
  bool read(Sequence& sequence, size_t index, int64_t end);
  bool read_lines(Sequence& sequence);
  void plan_reading();
  int64_t places() const;
  void admit();
  Sequence* next_waiting();
  void take_from_queue(Sequence& sequence);

  BlockStore& blocks_;
  Limits limits_;
  std::vector<Sequence*> running_;         // as admitted
  std::deque<Sequence*> preempted_;        // as admitted before
  std::map<std::string, Client> clients_;  // of which something is here
  std::vector<Part> parts_;
  int64_t left_;  // tokens of the pass
  int64_t num_waiting_ = 0;
  int64_t preemptions_ = 0;
  int64_t prefix_queries_ = 0, prefix_hits_ = 0;
};

}  // namespace megalith::generate
