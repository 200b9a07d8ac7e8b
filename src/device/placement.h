// SPDX-License-Identifier: Apache-2.0
// Which cores threads run on. A worker that stays on its core keeps its part of every tensor in the
// same caches and its pages in the same memory; ranks that are threads of one process each have
// cores of their own. Only a wish, and only where the threads are as many as the cores that the
// process was given: fewer leave the choice to the system, which knows what else runs, and so does
// a control group's share of time. The affinity mask and sysfs say all that is needed; loading an
// hwloc topology takes 8 to 12 ms of every start on two cores, and its library more.
#pragma once

#include <span>
#include <vector>

#include "base/thread_pool.h"

namespace megalith::device {

/// Cores that the calling thread may use, neighbours (hardware threads of a core, cores of a
/// package) beside one another. Empty when the system does not say.
std::vector<int> cores_in_order();

/// Keeps the calling thread, and threads that it starts from now on, on `cores`. False where the
/// system refuses.
bool keep_on_cores(std::span<const int> cores);

/// The part of `cores` that rank `rank` has when rank i runs `threads[i]` threads; nothing unless
/// there are as many threads as cores.
std::span<const int> cores_of_rank(std::span<const int> cores, std::span<const int> threads,
                                   int rank);

/// Each worker of the pool on a core of its own, if the pool has as many threads as the caller may
/// use cores. The caller stays as free as it is: threads that it starts later inherit that.
void place_workers(ThreadPool& pool);

}  // namespace megalith::device
