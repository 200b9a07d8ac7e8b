// SPDX-License-Identifier: Apache-2.0
#include "comm/messages/long_waits.h"

#include <algorithm>
#include <exception>
#include <vector>

#include "comm/messages/see_off.h"

namespace megalith::comm {

LongWaits::LongWaits(Wire& wire) : wire_(wire) { await_note(); }

LongWaits::~LongWaits() {
  std::vector<Wire::Handle> open;
  for (const Sent& sent : sent_) open.push_back(sent.handle);
  see_off(wire_, std::move(open));
  try {
    if (waiting_ != 0) wire_.cancel_receive(waiting_);
  } catch (const std::exception&) {
    // Nobody is left to be told.
  }
}

void LongWaits::await_note() {
  waiting_ = wire_.start_receive(Wire::kAnyRank, kLongWaitTag,
                                 reinterpret_cast<std::byte*>(&incoming_), sizeof(Note));
}

void LongWaits::tell(int lane, const std::string& call) {
  const std::lock_guard lock(mutex_);
  const auto note = std::make_shared<Note>();
  note->rank = wire_.rank();
  note->lane = lane;
  std::copy_n(call.begin(), std::min(call.size(), note->call.size() - 1), note->call.begin());
  for (int rank = 0; rank < wire_.size(); ++rank) {
    if (rank == wire_.rank()) continue;
    try {
      sent_.push_back(
          {note, wire_.start_send(rank, kLongWaitTag, reinterpret_cast<std::byte*>(note.get()),
                                  sizeof(Note))});
    } catch (const std::exception&) {
      // A peer that is gone: calls with it say so.
    }
  }
  // This also drives on what was just sent: the caller may not look again for long.
  sent_.remove_if([this](const Sent& sent) { return is_over(wire_, sent.handle); });
}

std::string LongWaits::of(int rank, int lane) {
  const std::lock_guard lock(mutex_);
  try {
    while (waiting_ != 0 && wire_.test(waiting_)) {
      incoming_.call.back() = '\0';
      told_[{incoming_.rank, incoming_.lane}] = incoming_.call.data();
      await_note();
    }
  } catch (const std::exception&) {
    waiting_ = 0;  // what is known is told: it is a hint beside another message
  }
  return told_[{rank, lane}];
}

}  // namespace megalith::comm
