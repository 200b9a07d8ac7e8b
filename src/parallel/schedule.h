// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules as data: what each stage does, in order. A pure function of four numbers. The
// executor (executor.h) walks one stage's list; tests and timelines walk all of them in virtual
// time.
//
// The model is cut into stages x chunks virtual stages; number k is chunk k / stages of stage k %
// stages. Kinds, for p stages, m micro-batches and v chunks (Narayanan et al. 2021, section 2.2):
//   gpipe   every forward, then every backward
//                              idle (p-1)/m of the ideal time; m micro-batches in flight
//   one_forward_one_backward   the same idle time; min(m, p - stage) in flight
//   interleaved                several chunks per stage
//                              idle (p-1)/(v m) from m = p on, more with fewer micro-batches; a
//                              remainder of m / p runs together with the last p
// On each stage and chunk, forwards and backwards each run in increasing micro-batch order, since
// weight gradients are sums in sample order.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "config/choices.h"

namespace megalith::parallel {

using ScheduleKind = config::PipelineSchedule;

/// Activations go to the next virtual stage, gradients to the previous one.
enum class ActionKind : uint8_t {
  forward,
  backward,
  start_send_activation,
  wait_send_activation,
  start_receive_activation,
  wait_receive_activation,
  start_send_gradient,
  wait_send_gradient,
  start_receive_gradient,
  wait_receive_gradient,
};
std::string_view name_of(ActionKind kind);
inline std::string_view format_as(ActionKind kind) { return name_of(kind); }

/// `chunk` is the chunk of the stage that acts. A transfer is identified at both ends by
/// (boundary, micro_batch); boundary k lies between virtual stages k - 1 and k.
struct Action {
  ActionKind kind = ActionKind::forward;
  int micro_batch = 0;
  int chunk = 0;
  int peer = -1;      // the other stage of a transfer
  int boundary = -1;  // of a transfer
  friend bool operator==(const Action&, const Action&) = default;
};

/// One list per stage. `chunks` is 1 except for `interleaved`. Transfers between chunks of one
/// stage (stages == 1) need no action.
std::vector<std::vector<Action>> make_schedule(ScheduleKind kind, int stages, int micro_batches,
                                               int chunks = 1);

/// The largest number of micro-batches x chunks whose forward is done and whose backward is not, at
/// any point of a list: how many slots of saved activations a stage needs.
int peak_in_flight(const std::vector<Action>& actions);

}  // namespace megalith::parallel
