// SPDX-License-Identifier: Apache-2.0
// A schedule in virtual time: when every computation of every stage would run, given what each
// costs. Transfers take no time here, but a wait lasts until both ends have started, as on real
// ranks; so a schedule that would hang does so here too, and is reported.
#pragma once

#include <vector>

#include "base/function_ref.h"
#include "parallel/schedule.h"

namespace megalith::parallel {

/// One forward or backward.
struct Span {
  int stage = 0;
  Action action;
  double begin = 0;
  double end = 0;
};

struct Timeline {
  std::vector<Span> spans;   // of one stage in order of time
  std::vector<double> busy;  // seconds of computation per stage
  double end = 0;            // when the last stage is done
};

/// `seconds_of(stage, action)` is asked for forwards and backwards. InternalError naming every
/// stage that is stuck, and on what, when the schedule does not finish.
Timeline simulate(const std::vector<std::vector<Action>>& schedule,
                  FunctionRef<double(int stage, const Action& action)> seconds_of);

}  // namespace megalith::parallel
