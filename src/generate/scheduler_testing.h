// SPDX-License-Identifier: Apache-2.0
// What a model would do with what the scheduler plans. Of the tests.
#pragma once

#include <array>
#include <random>

#include "generate/scheduler.h"

namespace megalith::generate {

inline constexpr int64_t kBlock = BlockStore::kBlock;
using inference::KvGroup;

/// Reads, and writes one token more until a sequence has as many as it may. Those that may have
/// several lines go on from some of them, some are given guesses. Blocks hold what was written to
/// them: what a token sees must be its line's.
struct Simulation {
  Simulation(const std::vector<KvGroup>& kinds, const std::vector<int64_t>& counts,
             Scheduler::Limits limits, bool keeps = true);
  Sequence& make(size_t prompt, size_t more, const std::string& client = "a", int32_t first = 0);
  /// One pass; how many tokens it had.
  int64_t step();
  void run(int64_t most_passes);

  std::vector<KvGroup> groups;
  BlockStore store;
  Scheduler scheduler;
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<Sequence*> ended;
  std::vector<std::vector<std::array<int32_t, kBlock>>> content;  // of blocks, by group
  std::mt19937 random{1};
  bool has_guesses = false;
  int64_t now = 0;

 private:
  int32_t& place(const Line& line, size_t g, int64_t position);
  void read(const std::vector<Scheduler::Part>& parts);
  void write(Sequence& s, int64_t guesses);
};

}  // namespace megalith::generate
