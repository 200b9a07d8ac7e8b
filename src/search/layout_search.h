// SPDX-License-Identifier: Apache-2.0
// The search over training layouts of a model on a cluster: every layout that the number of
// devices, the batch and the canonical split allow, with every choice of sequence parallelism,
// schedule, optimizer spreading and recomputation down to single layers. Nothing is sampled. What
// does not fit into memory is refused by its estimate (memory_estimate.h), what does is judged by a
// bound of its time from below (costs/step_time.h); schedules are run best bound first until no
// other bound is below the last one shown, so the order of those shown is that of all. They are
// planned to the byte.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "account/traced_step.h"
#include "clusters/cluster.h"
#include "costs/step_time.h"
#include "search/layout_point.h"
#include "search/memory_estimate.h"
#include "search/sensitivity.h"

namespace megalith::search {

struct Candidate {
  LayoutPoint point;
  costs::StepTime time;  // of the schedule in virtual time, where it was run; else the bound
  double least = 0;      // seconds: the bound
  bool is_simulated = false;
  bool is_planned = false;
  MemoryOfStage estimate;
  int64_t memory_bytes = 0;  // of the rank that takes most; planned to the byte where shown
  int variants = 1;          // of the same cut, judged
  bool is_pareto = false;    // nothing judged is both faster and smaller
  std::optional<double> measured = {};  // seconds of a step, where it was run (confirmation.h)

  double expected_seconds() const { return measured.value_or(time.seconds); }
};

/// Layouts that do not fit, and what would mend the fastest of them.
struct Refusal {
  std::string reason;
  int64_t count = 0;
  std::string mend;  // the smallest change, with what it costs; empty: nothing does
};

/// What is planned is planned for, unless it is this machine: kernels' scratch on a GPU is taken to
/// be that of a CPU's.
inline const device::Target kPlanTarget{device::DeviceKind::cpu, device::Isa::avx512_bf16, 1};

struct SearchOptions {
  int64_t devices = 0;  // 0: all of the cluster
  size_t top = 10;
  bool also_fp8 = false;  // beside the recipe's own precision
  int threads = 0;        // 0: all cores
  account::BesideSteps beside;
  device::Target target = kPlanTarget;
  std::vector<LayoutPoint> left_out;                 // not taken: they do not run
  std::function<void(const std::string&)> progress;  // a line for people; may be empty
};

struct SearchResult {
  std::vector<Candidate> best;    // at most `top`, the fastest first; each of another cut
  std::vector<Candidate> pareto;  // time against memory, the fastest first
  std::vector<Refusal> refusals;
  std::vector<Sensitivity> sensitivities;  // of the best
  int64_t judged = 0;                      // candidates whose memory was estimated
  int64_t refused = 0;                     // of them, for memory
  int64_t simulated = 0;
  double seconds = 0;
  int64_t devices = 0;
  /// The layout that the recipe itself asks for, where it has as many ranks: its place among cuts
  /// from 1 on, and its time. Absent (0) otherwise.
  int64_t own_place = 0;
  Candidate own;
};

/// UserError when the space is empty or nothing fits, with what would have to change.
SearchResult search_layouts(const engine::Settings& base, const clusters::Cluster& cluster,
                            const SearchOptions& options);

}  // namespace megalith::search
