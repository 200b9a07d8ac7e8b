// SPDX-License-Identifier: Apache-2.0
// What carries messages between processes: the whole of what a library such as MPI is asked for.
// An interface without code, so that a plug-in can implement it and share nothing else with the
// program.
#pragma once

#include <cstddef>
#include <cstdint>

namespace megalith::comm {

/// Functions may be called from any thread. Messages of one (sender, receiver, tag) arrive in the
/// order of their starts. Errors of the library are thrown as std::runtime_error.
class Transport {
 public:
  /// Names a message between its start and the test that finds it done. Never 0.
  using Handle = uint64_t;
  /// A sender of any rank (receives only).
  static constexpr int kAnyRank = -1;

  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The bytes stay untouched until the message is done. Tags from 0 to 2^20.
  virtual Handle start_send(int to, int tag, const std::byte* data, int64_t bytes) = 0;
  virtual Handle start_receive(int from, int tag, std::byte* data, int64_t bytes) = 0;
  /// True when done; the handle is then no more. Drives all messages of this process on.
  virtual bool test(Handle handle) = 0;
  /// Gives up a receive that nothing has come for. False if something has: it is done.
  virtual bool cancel_receive(Handle handle) = 0;
  /// The last call: waits for all ranks when `in_order`, else leaves without a word.
  virtual void leave(bool in_order) = 0;
};

}  // namespace megalith::comm
