// SPDX-License-Identifier: Apache-2.0
#include "generate/scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace megalith::generate {

using State = Sequence::State;

Scheduler::Scheduler(BlockStore& blocks, const Limits& limits) : blocks_(blocks), limits_(limits) {
  MEGA_CHECK(limits.sequences >= 1 && limits.tokens >= limits.sequences && limits.waiting >= 1);
}

bool Scheduler::submit(Sequence& sequence) {
  MEGA_CHECK(sequence.state == State::outside && !sequence.ids.empty());
  MEGA_CHECK(blocks_.can_hold(sequence.most, sequence.memory),
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

bool Scheduler::grow(Sequence& sequence, int64_t count) {
  return blocks_.extend(sequence.held, sequence.past + count, sequence.memory);
}

void Scheduler::add(Sequence& sequence, int64_t count) {
  parts_.push_back({&sequence, count});
  left_ -= count;
  clients_.at(sequence.client).served += count;
}

/// The sequence admitted last gives up its blocks and waits before all others.
void Scheduler::preempt_last() {
  Sequence& last = *running_.back();
  running_.pop_back();
  blocks_.release(last.held);
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
    if (std::ssize(sequence.ids) - sequence.past != 1) continue;
    while (!grow(sequence, 1)) {
      MEGA_CHECK(running() > 1, "one sequence alone has no room");
      const bool is_last = i + 1 == running_.size();
      preempt_last();
      if (is_last) return;
    }
    add(sequence, 1);
  }
}

/// Parts of those that read, as admitted. One without room waits for those that write, and where
/// nobody does, it is the first: the others go.
void Scheduler::plan_reading() {
  for (size_t i = 0; i < running_.size() && left_ > 0; ++i) {
    Sequence& sequence = *running_[i];
    const int64_t rest = std::ssize(sequence.ids) - sequence.past;
    MEGA_CHECK(rest > 0, "a sequence with nothing to read is running");
    if (rest == 1) continue;
    const int64_t count = std::min(rest, left_);
    while (!grow(sequence, count)) {
      if (!parts_.empty()) return;
      MEGA_CHECK(running() > 1, "one sequence alone has no room");
      preempt_last();
    }
    add(sequence, count);
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
  while (left_ > 0 && running() < limits_.sequences) {
    Sequence* const sequence = next_waiting();
    if (sequence == nullptr) return;
    const int64_t known = std::min(std::ssize(sequence->ids) - 1, sequence->may_find);
    const int64_t found =
        blocks_.begin(sequence->held, sequence->salt,
                      std::span(sequence->ids).first(static_cast<size_t>(known + 1)));
    sequence->past = found;
    const int64_t count = std::min(std::ssize(sequence->ids) - found, left_);
    // A block is left for each that is running, so that it is not driven out at once.
    if (!blocks_.leaves(sequence->held, found + count, sequence->memory, running()) ||
        !grow(*sequence, count)) {
      blocks_.release(sequence->held);
      sequence->past = 0;
      return;
    }
    take_from_queue(*sequence);
    sequence->found = found;
    sequence->state = State::running;
    running_.push_back(sequence);
    add(*sequence, count);
  }
}

const std::vector<Scheduler::Part>& Scheduler::plan() {
  parts_.clear();
  left_ = limits_.tokens;
  plan_writing();
  plan_reading();
  admit();
  return parts_;
}

void Scheduler::advance() {
  for (const Part& part : parts_) {
    Sequence& sequence = *part.sequence;
    sequence.past += part.count;
    blocks_.written(sequence.held, sequence.salt,
                    std::span(sequence.ids).first(static_cast<size_t>(sequence.past)));
  }
  parts_.clear();
}

void Scheduler::leave(Sequence& sequence) {
  if (sequence.state == State::outside) return;
  if (sequence.state == State::running) {
    std::erase(running_, &sequence);
    blocks_.release(sequence.held);
  } else {
    take_from_queue(sequence);
  }
  std::erase_if(parts_, [&](const Part& part) { return part.sequence == &sequence; });
  sequence.state = State::outside;
  sequence.past = 0;
  const auto client = clients_.find(sequence.client);
  if (--client->second.here == 0) clients_.erase(client);
}

}  // namespace megalith::generate
