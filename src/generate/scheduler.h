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

/// One sequence as the scheduler sees it; its owner's, at a fixed address from submit() to leave().
struct Sequence {
  uint64_t number = 0;  // the owner's
  std::string client;
  uint64_t salt = 0;         // tells apart what reads the same ids differently (BlockStore::begin)
  std::vector<int32_t> ids;  // the prompt, then what was written
  int64_t memory = 0;        // tokens that an encoder read for it
  int64_t most = 0;          // positions that it may come to have
  /// So many of its first positions at most are taken as known: the others it wants to read.
  int64_t may_find = kAll;
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

  /// The scheduler's.
  int64_t past = 0;  // of ids, that were read (running)
  BlockStore::Held held;
  enum class State : uint8_t { outside, waiting, running } state = State::outside;
  int64_t preemptions = 0;
  int64_t found = 0;  // positions that were known when it was admitted last
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

  /// Whether there is a place in the queue; then it waits. It must fit (BlockStore::can_hold).
  bool submit(Sequence& sequence);
  /// Tokens [past, past + count) of a sequence.
  struct Part {
    Sequence* sequence = nullptr;
    int64_t count = 0;
    /// What follows its last token is to be chosen.
    bool is_last() const { return sequence->past + count == std::ssize(sequence->ids); }
  };
  /// The next pass, those that write first; empty when there is nothing to do. To be followed by
  /// advance() or drop() before any other call.
  const std::vector<Part>& plan();
  /// The pass was made. Of sequences whose part was the last, the owner then appends a token or
  /// lets them leave.
  void advance();
  /// In any state; its blocks are free.
  void leave(Sequence& sequence);

  int64_t running() const { return std::ssize(running_); }
  int64_t waiting() const { return num_waiting_; }
  int64_t preemptions() const { return preemptions_; }

 private:
  struct Client {
    std::deque<Sequence*> waiting;
    int64_t served = 0;  // tokens
    int64_t here = 0;    // sequences waiting or running
  };
  bool grow(Sequence& sequence, int64_t count);
  void preempt_last();
  void add(Sequence& sequence, int64_t count);
  void plan_writing();
  void plan_reading();
  void admit();
  Sequence* next_waiting();
  void take_from_queue(Sequence& sequence);

  BlockStore& blocks_;
  Limits limits_;
  std::vector<Sequence*> running_;         // as admitted
  std::deque<Sequence*> preempted_;        // as admitted before
  std::map<std::string, Client> clients_;  // of which something is here
  std::vector<Part> parts_;
  int64_t left_ = 0;  // tokens of the pass
  int64_t num_waiting_ = 0;
  int64_t preemptions_ = 0;
};

}  // namespace megalith::generate
