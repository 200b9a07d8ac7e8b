// SPDX-License-Identifier: Apache-2.0
#include "generate/scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace megalith::generate {

using State = Sequence::State;

Scheduler::Scheduler(BlockStore& blocks, const Limits& limits)
    : blocks_(blocks), limits_(limits), left_(limits.tokens) {
  MEGA_CHECK(limits.sequences >= 1 && limits.tokens >= limits.sequences && limits.waiting >= 1);
}

bool Scheduler::submit(Sequence& sequence) {
  MEGA_CHECK(sequence.state == State::outside && !sequence.ids.empty());
  MEGA_CHECK(sequence.width <= limits_.sequences && sequence.beside.empty());
  MEGA_CHECK(blocks_.can_hold(size_of(sequence)),
             "a sequence of {} positions is more than there are blocks for", sequence.most);
  if (num_waiting_ == limits_.waiting) return false;
  Client& client = clients_[sequence.client];
  if (client.here++ == 0) {
    int64_t least = client.served;
    bool is_first = true;
    for (const auto& [name, other] : clients_) {
      if (&other == &client) continue;
      least = is_first ? other.served : std::min(least, other.served);
      is_first = false;
    }
    client.served = std::max(client.served, least);
  }
  client.waiting.push_back(&sequence);
  sequence.state = State::waiting;
  ++num_waiting_;
  return true;
}

BlockStore::Size Scheduler::size_of(const Sequence& sequence) {
  return {.positions = sequence.most,
          .memory = sequence.memory,
          .lines = sequence.width,
          .common = std::ssize(sequence.ids)};
}

namespace {

/// Whether all of its lines lack but their last token, so that all may write.
bool writes(const Sequence& sequence) {
  for (size_t i = 0; i < sequence.num_lines(); ++i)
    if (sequence.line(i).rest() != 1) return false;
  return true;
}

/// Where the first line's reading stops: the others fork there, or all wait for each other's last
/// token.
int64_t first_end(const Sequence& sequence) {
  if (sequence.num_lines() == 1) return std::ssize(sequence.ids);
  return sequence.common > 0 ? sequence.common : std::ssize(sequence.ids) - 1;
}

/// Whole blocks that all lines begin with.
int64_t common_positions(const Sequence& sequence) {
  int64_t common = std::ssize(sequence.ids) - 1;
  for (const Line& line : sequence.beside) {
    const auto differ = std::ranges::mismatch(sequence.ids, line.ids).in1;
    common = std::min<int64_t>(common, differ - sequence.ids.begin());
  }
  return common / BlockStore::kBlock * BlockStore::kBlock;
}

}  // namespace

int64_t Scheduler::places() const {
  int64_t places = 0;
  for (const Sequence* const sequence : running_) places += sequence->width;
  return places;
}

bool Scheduler::grow(Sequence& sequence, size_t index, int64_t count) {
  Line& line = sequence.line(index);
  return blocks_.extend(line.held, line.past + count, sequence.memory);
}

/// By a token each.
bool Scheduler::grow_all(Sequence& sequence) {
  for (size_t i = 0; i < sequence.num_lines(); ++i)
    if (!grow(sequence, i, 1)) return false;
  return true;
}

void Scheduler::add(Sequence& sequence, size_t index, int64_t count) {
  parts_.push_back({&sequence, index, count});
  left_ -= count;
  clients_.at(sequence.client).served += count;
}

/// The sequence admitted last gives up its blocks and waits before all others.
void Scheduler::preempt_last() {
  Sequence& last = *running_.back();
  running_.pop_back();
  for (size_t i = 0; i < last.num_lines(); ++i) {
    blocks_.release(last.line(i).held);
    last.line(i).past = 0;
  }
  last.common = common_positions(last);
  last.state = State::waiting;
  ++last.preemptions;
  ++preemptions_;
  preempted_.push_front(&last);
  ++num_waiting_;
}

/// One token of each that writes. Where blocks run out, those admitted later go: none of them has a
/// part yet.
void Scheduler::plan_writing() {
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    if (!writes(sequence)) continue;
    while (!grow_all(sequence)) {
      MEGA_CHECK(running() > 1, "one sequence alone has no room");
      const bool is_last = i + 1 == running_.size();
      preempt_last();
      if (is_last) return;
    }
    for (size_t line = 0; line < sequence.num_lines(); ++line) add(sequence, line, 1);
  }
}

/// A line up to `end`, as far as the pass goes; false if there is no room.
bool Scheduler::read(Sequence& sequence, size_t index, int64_t end) {
  const int64_t count = std::min(end - sequence.line(index).past, left_);
  if (count <= 0) return true;
  if (!grow(sequence, index, count)) return false;
  add(sequence, index, count);
  return true;
}

/// What a sequence has to read, as far as the pass goes; false if there is no room. Of several
/// lines the first reads what all share, then they fork.
bool Scheduler::read_lines(Sequence& sequence) {
  const bool is_one = sequence.num_lines() == 1;
  const bool has_forked = is_one || !sequence.beside.front().held.tables().empty();
  const int64_t end = first_end(sequence);
  if (is_one || (!has_forked && sequence.past < end)) return read(sequence, 0, end);
  for (Line& line : sequence.beside) {
    if (has_forked) break;
    blocks_.fork(sequence.held, sequence.common, line.held);
    line.past = sequence.common;
  }
  if (writes(sequence)) {
    const auto lines = std::ssize(sequence.beside) + 1;
    if (left_ < lines) return true;
    if (!grow_all(sequence)) return false;
    for (size_t i = 0; i < sequence.num_lines(); ++i) add(sequence, i, 1);
    return true;
  }
  for (size_t i = 0; i < sequence.num_lines(); ++i)
    if (!read(sequence, i, std::ssize(sequence.line(i).ids) - 1)) return false;
  return true;
}

/// Parts of those that read, as admitted. One without room waits for those that write, and where
/// nobody does, it is the first: the others go.
void Scheduler::plan_reading() {
  for (size_t i = 0; i < running_.size() && left_ > 0; ++i) {
    Sequence& sequence = *running_[i];
    if (writes(sequence)) continue;
    while (!read_lines(sequence)) {
      if (!parts_.empty()) return;
      MEGA_CHECK(running() > 1, "one sequence alone has no room");
      preempt_last();
    }
  }
}

/// What nobody else needs goes to what is proposed.
void Scheduler::plan_proposed() {
  for (Part& part : parts_) {
    Sequence& sequence = *part.sequence;
    if (sequence.num_lines() > 1 || sequence.rest() != 1) continue;
    const int64_t more = std::min(std::ssize(sequence.proposed), left_);
    const int64_t end = sequence.past + 1 + more;
    if (!blocks_.leaves(sequence.held, end, sequence.memory, places() - 1) ||
        !blocks_.extend(sequence.held, end, sequence.memory))
      continue;
    part.count += more;
    left_ -= more;
    clients_.at(sequence.client).served += more;
  }
}

Sequence* Scheduler::next_waiting() {
  if (!preempted_.empty()) return preempted_.front();
  Client* next = nullptr;
  for (auto& [name, client] : clients_) {
    if (client.waiting.empty()) continue;
    if (next == nullptr || client.served < next->served) next = &client;
  }
  return next == nullptr ? nullptr : next->waiting.front();
}

void Scheduler::take_from_queue(Sequence& sequence) {
  const auto at = std::ranges::find(preempted_, &sequence);
  if (at != preempted_.end()) {
    preempted_.erase(at);
  } else {
    std::erase(clients_.at(sequence.client).waiting, &sequence);
  }
  --num_waiting_;
}

void Scheduler::admit() {
  while (left_ > 0) {
    Sequence* const sequence = next_waiting();
    if (sequence == nullptr || places() + sequence->width > limits_.sequences) return;
    const bool is_one = sequence->num_lines() == 1;
    const int64_t known =
        std::min(is_one ? std::ssize(sequence->ids) - 1 : sequence->common, sequence->may_find);
    const int64_t found =
        blocks_.begin(sequence->held, sequence->salt,
                      std::span(sequence->ids).first(static_cast<size_t>(known + 1)));
    const int64_t count = std::min(first_end(*sequence) - found, left_);
    // A block is left for each that is running, so that it is not driven out at once.
    if (!blocks_.leaves(sequence->held, found + count, sequence->memory, places())) {
      blocks_.release(sequence->held);
      return;
    }
    take_from_queue(*sequence);
    sequence->past = sequence->found = found;
    prefix_queries_ += std::ssize(sequence->ids);
    prefix_hits_ += found;
    sequence->state = State::running;
    running_.push_back(sequence);
    read_lines(*sequence);
  }
}

const std::vector<Scheduler::Part>& Scheduler::plan() {
  parts_.clear();
  left_ = limits_.tokens;
  plan_writing();
  plan_reading();
  admit();
  plan_proposed();
  return parts_;
}

void Scheduler::advance() {
  for (const Part& part : parts_) {
    Sequence& sequence = *part.sequence;
    Line& line = sequence.line(part.index);
    line.past += std::min(part.count, line.rest());
    blocks_.written(line.held, sequence.salt,
                    std::span(line.ids).first(static_cast<size_t>(line.past)));
  }
  parts_.clear();
}

void Scheduler::advance_proposed(Sequence& sequence, int64_t count) {
  MEGA_CHECK(sequence.num_lines() == 1 && count <= sequence.rest());
  sequence.past += count;
  blocks_.written(sequence.held, sequence.salt,
                  std::span(sequence.ids).first(static_cast<size_t>(sequence.past)));
}

void Scheduler::branch(Sequence& sequence, std::span<const size_t> parents) {
  MEGA_CHECK(sequence.state == State::running && !parents.empty() &&
             std::ssize(parents) <= sequence.width);
  std::vector<Line> lines(parents.size());
  for (size_t i = 0; i < parents.size(); ++i) {
    const Line& parent = sequence.line(parents[i]);
    lines[i].ids = parent.ids;
    lines[i].past = parent.past;
    blocks_.fork(parent.held, parent.past, lines[i].held);
  }
  for (size_t i = 0; i < sequence.num_lines(); ++i) blocks_.release(sequence.line(i).held);
  static_cast<Line&>(sequence) = std::move(lines.front());
  lines.erase(lines.begin());
  sequence.beside = std::move(lines);
}

void Scheduler::leave(Sequence& sequence) {
  if (sequence.state == State::outside) return;
  if (sequence.state == State::running) {
    std::erase(running_, &sequence);
    for (size_t i = 0; i < sequence.num_lines(); ++i) blocks_.release(sequence.line(i).held);
  } else {
    take_from_queue(sequence);
  }
  std::erase_if(parts_, [&](const Part& part) { return part.sequence == &sequence; });
  sequence.state = State::outside;
  for (size_t i = 0; i < sequence.num_lines(); ++i) sequence.line(i).past = 0;
  const auto client = clients_.find(sequence.client);
  if (--client->second.here == 0) clients_.erase(client);
}

}  // namespace megalith::generate
