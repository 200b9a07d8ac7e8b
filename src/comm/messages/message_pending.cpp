// SPDX-License-Identifier: Apache-2.0
#include "comm/messages/message_pending.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>

#include "base/check.h"
#include "base/clock.h"
#include "comm/memory_mover.h"
#include "comm/timeout.h"

namespace megalith::comm {
namespace {

/// How long a call that is given up waits for peers to take what it sent.
constexpr double kGiveUpSeconds = 1;
/// Polls before a waiting rank lets others have the core, and before it sleeps between polls.
constexpr int kSpins = 100, kYields = 300;

}  // namespace

MessagePending::MessagePending(Place place, const Operation& operation, uint64_t number)
    : place_(std::move(place)),
      operation_(operation),
      label_(operation.label),
      own_(CallHeader::of(operation, number)),
      headers_(place_.members->size()),
      has_called_(place_.members->size()),
      exceptions_(std::uncaught_exceptions()) {
  operation_.label = label_;
  if (operation.kind == OperationKind::transfer) {
    start_transfer();
  } else {
    start_collective();
  }
  std::ranges::stable_sort(open_, {}, [](const Message& m) { return !m.is_header; });
}

void MessagePending::start_transfer() {
  const int64_t bytes = operation_.count * bytes_of(operation_.dtype);
  if (operation_.is_sender) {
    send_header(operation_.peer);
    send(operation_.peer, false, operation_.source.data(), bytes);
  } else {
    receive_header(operation_.peer);
    receive(operation_.peer, false, operation_.target.data(), bytes);
  }
}

void MessagePending::start_collective() {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == place_.rank) continue;
    receive_header(peer);
    send_header(peer);
  }
  const Operation& op = operation_;
  const int64_t row_bytes = op.rows == 0 ? 0 : op.count / op.rows * bytes_of(op.dtype);
  const auto part = [&](int rank) { return part_of(op.rows, rank, size()); };
  const Part own = part(place_.rank);
  switch (op.kind) {
    case OperationKind::all_gather:
      for (int peer = 0; peer < size(); ++peer) {
        std::byte* const to = op.target.data() + part(peer).begin * row_bytes;
        if (peer != place_.rank) {
          receive(peer, false, to, part(peer).count * row_bytes);
          send(peer, false, op.source.data(), own.count * row_bytes);
        } else if (to != op.source.data() && own.count > 0) {
          std::memcpy(to, op.source.data(), static_cast<size_t>(own.count * row_bytes));
        }
      }
      return;
    case OperationKind::all_to_all:
      for (int peer = 0; peer < size(); ++peer) {
        std::byte* const to = op.target.data() + peer * own.count * row_bytes;
        const std::byte* const from = op.source.data() + part(peer).begin * row_bytes;
        if (peer != place_.rank) {
          receive(peer, false, to, own.count * row_bytes);
          send(peer, false, from, part(peer).count * row_bytes);
        } else if (own.count > 0) {
          std::memcpy(to, from, static_cast<size_t>(own.count * row_bytes));
        }
      }
      return;
    case OperationKind::broadcast:
      for (int peer = 0; peer < size() && place_.rank == op.root; ++peer) {
        if (peer != op.root) send(peer, false, op.source.data(), op.count * bytes_of(op.dtype));
      }
      if (place_.rank != op.root)
        receive(op.root, false, op.target.data(), op.count * bytes_of(op.dtype));
      return;
    case OperationKind::all_reduce_max:
    case OperationKind::all_reduce_min:
    case OperationKind::all_reduce_sum:
      return start_reduction();
    case OperationKind::barrier:
    case OperationKind::split:
    case OperationKind::transfer:
      return;
  }
}

/// All of everybody's vector to everybody: these are small (norms, flags), and one step is soonest.
void MessagePending::start_reduction() {
  const int64_t bytes = operation_.count * bytes_of(operation_.dtype);
  reduced_.resize(static_cast<size_t>(size()));
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == place_.rank) continue;
    auto& theirs = reduced_[static_cast<size_t>(peer)];
    theirs.resize(static_cast<size_t>(bytes));
    receive(peer, false, theirs.data(), bytes);
    send(peer, false, operation_.source.data(), bytes);
  }
}

void MessagePending::send(int peer, bool is_header, const std::byte* data, int64_t bytes) {
  if (bytes == 0) return;
  const int to = (*place_.members)[static_cast<size_t>(peer)];
  open_.push_back(
      {place_.messages->transport().start_send(to, place_.tag + (is_header ? 0 : 1), data, bytes),
       peer, false, is_header});
}

void MessagePending::receive(int peer, bool is_header, std::byte* data, int64_t bytes) {
  if (bytes == 0) return;
  const int from = (*place_.members)[static_cast<size_t>(peer)];
  open_.push_back({place_.messages->transport().start_receive(
                       from, place_.tag + (is_header ? 0 : 1), data, bytes),
                   peer, true, is_header});
}

void MessagePending::send_header(int peer) {
  send(peer, true, reinterpret_cast<const std::byte*>(&own_), sizeof(CallHeader));
}

void MessagePending::receive_header(int peer) {
  receive(peer, true, reinterpret_cast<std::byte*>(&headers_[static_cast<size_t>(peer)]),
          sizeof(CallHeader));
}

/// Data of a peer is looked at behind its header, so that a call that differs is named and not what
/// the transport says of data that does not fit.
bool MessagePending::is_expected(const Message& message) const {
  return !message.is_receive || message.is_header || has_called_[static_cast<size_t>(message.peer)];
}

/// Tests what is open; headers come first in the list.
bool MessagePending::progress() {
  std::erase_if(open_, [&](const Message& message) {
    if (!is_expected(message) || !place_.messages->transport().test(message.handle)) return false;
    if (message.is_receive && message.is_header) {
      compare(message.peer);
      has_called_[static_cast<size_t>(message.peer)] = true;
    }
    return true;
  });
  return open_.empty();
}

void MessagePending::compare(int peer) const {
  const CallHeader& theirs = headers_[static_cast<size_t>(peer)];
  if (theirs == own_) return;
  const auto name = [&](int rank) {
    return place_.messages->name_of((*place_.members)[static_cast<size_t>(rank)]);
  };
  throw CallError(
      ExitCode::failure,
      fmt::format("{}: ranks disagree on call {} of group '{}': {} calls {}, {} calls {}",
                  place_.state->place(), own_.number, place_.group_name, name(place_.rank),
                  own_.text(), name(peer), theirs.text()));
}

void MessagePending::guarded(FunctionRef<void()> body) {
  try {
    body();
  } catch (const RankFailure&) {
    give_up();
    throw;
  } catch (const CallError& error) {
    const bool is_first = place_.messages->fail({error.code(), error.what()});
    give_up();
    if (!is_first) place_.messages->throw_failure(text());
    throw;
  } catch (const std::exception& error) {  // the transport's
    const CallError failure(ExitCode::failure, fmt::format("{}: {}", text(), error.what()));
    place_.messages->fail({failure.code(), failure.what()});
    give_up();
    throw CallError(failure);
  }
}

void MessagePending::look_for_failures() {
  place_.messages->look();
  if (place_.messages->failed()) place_.messages->throw_failure(text());
}

void MessagePending::advance() {
  guarded([&] {
    if (!progress()) look_for_failures();
  });
}

void MessagePending::wait() {
  Timeout timeout(place_.state->deadline_seconds, monotonic_seconds());
  guarded([&] {
    uint64_t heartbeats = 0;
    for (int turn = 0; !progress(); ++turn) {
      look_for_failures();
      if (timeout.expired(monotonic_seconds())) throw_late();
      if (turn <= kSpins) continue;
      // Those from before the wait are found by its first look: they renew what is whole still.
      const uint64_t given = place_.messages->heartbeats();
      if (given != heartbeats) timeout.restart(monotonic_seconds());
      heartbeats = given;
      if (turn > kYields) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      } else {
        std::this_thread::yield();  // on crowded cores, for as long as the others take
      }
    }
    finish();
  });
  over_ = true;
}

void MessagePending::finish() {
  if (reduced_.empty()) return;
  std::vector<Operation> posts(static_cast<size_t>(size()), operation_);
  for (size_t rank = 0; rank < posts.size(); ++rank) {
    if (static_cast<int>(rank) == place_.rank) continue;
    posts[rank].target = View(reduced_[rank].data(), operation_.dtype, Shape{operation_.count});
  }
  reduce_piece(posts, 0, operation_.count);
}

/// Whether a message of a call that was given up is. What the transport throws of one (data that
/// does not fit, a peer that is gone) ends that one.
bool MessagePending::is_over(const Message& message) const {
  try {
    Transport& transport = place_.messages->transport();
    if (!message.is_receive) return transport.test(message.handle);
    transport.cancel_receive(message.handle);
  } catch (const std::exception&) {
    // The call is given up because of an error already: that one is told.
  }
  return true;
}

/// Nothing may be written to these buffers, or read from them, once this returns; but for what a
/// dead peer will never take.
void MessagePending::give_up() {
  over_ = true;
  const double until = monotonic_seconds() + kGiveUpSeconds;
  while (true) {
    std::erase_if(open_, [&](const Message& message) { return is_over(message); });
    if (open_.empty() || monotonic_seconds() > until) break;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  open_.clear();
}

MessagePending::~MessagePending() {
  if (over_) return;
  if (std::uncaught_exceptions() <= exceptions_ && !place_.messages->failed()) {
    place_.messages->fail(
        {ExitCode::failure, text() + ": its ticket was destroyed without a wait"});
  }
  give_up();
}

std::string MessagePending::text() const {
  return fmt::format("{}, {} (call {} of group '{}')", place_.state->place(), own_.text(),
                     own_.number, place_.group_name);
}

void MessagePending::throw_late() const {
  std::string absent;
  for (const Message& message : open_) {
    if (!message.is_header || !message.is_receive) continue;
    const int rank = (*place_.members)[static_cast<size_t>(message.peer)];
    absent += fmt::format("; {} has not started it", place_.messages->name_of(rank));
  }
  for (const Message& message : open_) {
    if (!absent.empty()) break;  // of one that has started, data is missing
    absent =
        fmt::format("; {} does not take or send its data",
                    place_.messages->name_of((*place_.members)[static_cast<size_t>(message.peer)]));
  }
  throw CallError(ExitCode::failure, fmt::format("{}: waited {} s, the deadline{}", text(),
                                                 place_.state->deadline_seconds, absent));
}

}  // namespace megalith::comm
