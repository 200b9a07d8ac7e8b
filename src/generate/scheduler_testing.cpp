// SPDX-License-Identifier: Apache-2.0
#include "generate/scheduler_testing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace megalith::generate {
namespace {

std::vector<int32_t> ids_of(size_t count, int32_t first) {
  std::vector<int32_t> ids(count);
  for (size_t i = 0; i < count; ++i) ids[i] = first + static_cast<int32_t>(i % 997);
  return ids;
}

/// Of the ids, then of the guesses.
int32_t id_at(const Line& line, int64_t position) {
  const int64_t beyond = position - std::ssize(line.ids);
  return beyond < 0 ? line.ids[static_cast<size_t>(position)]
                    : line.proposed[static_cast<size_t>(beyond)];
}

}  // namespace

Simulation::Simulation(const std::vector<KvGroup>& kinds, const std::vector<int64_t>& counts,
                       Scheduler::Limits limits, bool keeps)
    : groups(kinds), store(kinds, counts, limits.tokens, keeps), scheduler(store, limits) {
  for (const int64_t count : counts) content.emplace_back(static_cast<size_t>(count));
}

Sequence& Simulation::make(size_t prompt, size_t more, const std::string& client, int32_t first) {
  Sequence& s = *sequences.emplace_back(std::make_unique<Sequence>());
  s.client = client;
  s.ids = ids_of(prompt, first);
  s.most = static_cast<int64_t>(prompt + more);
  return s;
}

int32_t& Simulation::place(const Line& line, size_t g, int64_t position) {
  const int32_t block = line.held.tables()[g].at(static_cast<size_t>(position / kBlock));
  return content[g].at(static_cast<size_t>(block))[static_cast<size_t>(position % kBlock)];
}

void Simulation::read(const std::vector<Scheduler::Part>& parts) {
  for (const auto& [group, from, to] : store.take_copies())
    content[group][static_cast<size_t>(to)] = content[group][static_cast<size_t>(from)];
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const Scheduler::Part& part : parts) {
      const Line& line = part.line();
      for (int64_t p = line.past; p < line.past + part.count; ++p)
        place(line, g, p) = id_at(line, p);
    }
    for (const Scheduler::Part& part : parts) {
      const Line& line = part.line();
      const int64_t window = groups[g].window;
      int64_t wrong = 0;
      for (int64_t p = window > 0 ? std::max<int64_t>(line.past - window + 1, 0) : 0;
           p < line.past + part.count; ++p)
        wrong += place(line, g, p) == id_at(line, p) ? 0 : 1;
      EXPECT_EQ(wrong, 0) << "line " << part.index << " of group " << g;
    }
  }
}

void Simulation::write(Sequence& s, int64_t guesses) {
  if (std::ssize(s.ids) == s.most) {
    scheduler.leave(s);
    ended.push_back(&s);
    return;
  }
  const int64_t right = guesses > 0 ? static_cast<int64_t>(random() % 5) % (guesses + 1) : 0;
  s.ids.insert(s.ids.end(), s.proposed.begin(), s.proposed.begin() + right);
  s.proposed.clear();
  if (s.width > 1) {
    std::vector<size_t> parents(1 + random() % static_cast<size_t>(s.width));
    for (size_t& parent : parents) parent = random() % s.num_lines();
    scheduler.branch(s, parents);
  }
  const auto next = static_cast<int32_t>(s.ids.size() % 50);
  for (size_t i = 0; i < s.num_lines(); ++i)
    s.line(i).ids.push_back(s.width > 1 ? static_cast<int32_t>(random() % 50) : next);
  if (right > 0) scheduler.advance_proposed(s, right);
  if (!has_guesses || s.width > 1) return;
  const auto room = static_cast<size_t>(std::max<int64_t>(s.most - std::ssize(s.ids) - 1, 0));
  s.proposed = ids_of(std::min<size_t>(random() % 5, room), 500);
}

int64_t Simulation::step() {
  ++now;
  const auto parts = scheduler.plan();
  int64_t tokens = 0;
  std::set<std::pair<const Sequence*, size_t>> seen;
  for (const Scheduler::Part& part : parts) {
    EXPECT_GT(part.count, 0);
    EXPECT_TRUE(seen.emplace(part.sequence, part.index).second) << "twice in a pass";
    for (const auto& table : part.line().held.tables())
      EXPECT_GE(std::ssize(table) * kBlock, part.line().past + part.count);
    tokens += part.count;
  }
  read(parts);
  std::vector<std::pair<Sequence*, int64_t>> last;
  for (const Scheduler::Part& part : parts)
    if (part.is_last() && part.index == 0)
      last.emplace_back(part.sequence, part.count - part.line().rest());
  scheduler.advance();
  for (const auto& [s, guesses] : last) write(*s, guesses);
  store.check();
  return tokens;
}

void Simulation::run(int64_t most_passes) {
  while (step() > 0) ASSERT_LT(now, most_passes) << "no end";
}

}  // namespace megalith::generate
