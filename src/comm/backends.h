// SPDX-License-Identifier: Apache-2.0
// Where communicators come from.
#pragma once

#include <memory>

#include "base/failure.h"
#include "base/function_ref.h"
#include "comm/communicator.h"
#include "device/device.h"

namespace megalith::comm {

/// The only rank. Copies, where a call implies one, are queued on `device`, which must outlive it
/// (and whose recorder it takes).
std::unique_ptr<Communicator> make_self_communicator(device::Device& device);

/// Rank `rank` of `size` ranks that do not exist: calls only add their wire bytes to the recorder
/// of `device`. Splits give groups of the right size.
std::unique_ptr<Communicator> make_traced_communicator(device::Device& device, int rank, int size);

/// The cause as a line on standard error.
void tell_on_stderr(const Failure& failure);

struct RankOptions {
  double deadline_seconds = 600;
  /// Threads only: after a failure, how long no rank may end or send a heartbeat until those
  /// that are still there are taken for hung. A healthy one has a block of a step, a flush of a
  /// file or the return of its memory in hand: seconds each. One that needed longer loses nothing,
  /// for whatever it writes is made to be cut off.
  double unwind_seconds = 60;
  /// Threads only: tells a person why the process ends when a rank hangs, before it does.
  void (*tell)(const Failure&) = tell_on_stderr;
};

/// Runs body(world) on `num_ranks` threads of this process, one rank each, and returns when all
/// have returned. If any throws, the others are ended, and the exception that came first is
/// rethrown here. A rank that returns while another waits for it is an error too. A thread that
/// hangs cannot be ended alone: the process is then, with the first cause and its exit code.
void run_ranks(int num_ranks, FunctionRef<void(Communicator&)> body,
               const RankOptions& options = {});

/// Runs body(world) as one rank of an MPI launch, which this process is, once per process. The
/// library is opened now (libmegalith_mpi.so beside the program or in ../lib); SystemError when it
/// is not there. If any rank throws, the others are ended with its cause; this one's error is its
/// own, or a RankFailure.
void run_mpi_rank(FunctionRef<void(Communicator&)> body, const RankOptions& options = {});

}  // namespace megalith::comm
