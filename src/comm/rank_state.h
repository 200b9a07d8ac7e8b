// SPDX-License-Identifier: Apache-2.0
// Who a rank is, where it is in its run, and how an error of its own is told to all ranks: every
// message names rank, host, step and call, however the ranks are connected.
#pragma once

#include <string>

#include "base/failure.h"
#include "comm/operation.h"
#include "device/device.h"

namespace megalith::comm {

/// An error of a call itself: its text says rank, host, step and call already.
class CallError : public Error {
 public:
  CallError(ExitCode code, const std::string& message) : Error(code, message) {}
};

/// Another rank failed first; what() names it and its cause, the code is that of the cause.
class RankFailure : public CallError {
 public:
  using CallError::CallError;
};

/// The call that a thread of a rank started last.
struct LastCall {
  bool is_any = false;
  OperationKind kind = OperationKind::barrier;
  std::string label;
  std::string group;

  void note(const Operation& operation, const std::string& of_group);
  /// "barrier 'end of step' of group 'world'"
  std::string text() const;
};

/// What the communicators of one rank share: set on one, it holds for all split from the same
/// world.
struct RankState {
  int world_rank = 0;
  int world_size = 1;
  std::string host;                  // for messages; may be empty
  int64_t step = -1;                 // for messages; negative before the first
  double deadline_seconds = 600;     // of each wait
  device::Device* device = nullptr;  // its recorder gets wire bytes, and time spent waiting
  LastCall last_call;                // for messages

  /// "rank 3 on node7 in step 12", "rank 3" without a host before the first step.
  std::string place() const;
  /// An error of this rank as all ranks are told it: "rank 3 on node7 failed in step 12 after
  /// calling barrier 'x' of group 'world': no space left". That of a call, which says so itself, as
  /// it is.
  Failure told(const std::exception_ptr& error) const;
  std::string told(const std::string& cause) const;

 private:
  std::string name() const;
  std::string in_step() const;
};

}  // namespace megalith::comm
