// SPDX-License-Identifier: Apache-2.0
#include "search/refusals.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "account/plan.h"

namespace megalith::search {
namespace {

using account::bytes_text;

enum class Missing { state, activations, passing };

/// What is most of the memory that a candidate takes.
Missing missing_of(const MemoryOfStage& memory) {
  if (memory.state >= memory.activations && memory.state >= memory.passing) return Missing::state;
  return memory.activations >= memory.passing ? Missing::activations : Missing::passing;
}

std::string_view name_of(Missing missing) {
  switch (missing) {
    case Missing::state:
      return "weights, gradients and optimizer state";
    case Missing::activations:
      return "activations kept for backward";
    case Missing::passing:
      return "the pass at work and its scratch";
  }
  return "";
}

/// The fitting candidate that differs in the fewest keys, the fastest among equals.
const Candidate* nearest(const Candidate& refused, const std::vector<Candidate>& fitting) {
  const Candidate* best = nullptr;
  int least = 0;
  for (const Candidate& candidate : fitting) {
    const int away = distance(refused.point, candidate.point);
    if (best != nullptr &&
        (away > least || (away == least && candidate.time.seconds >= best->time.seconds)))
      continue;
    best = &candidate;
    least = away;
  }
  return best;
}

}  // namespace

std::vector<Refusal> refusals_of(const Space& space, const std::vector<Candidate>& refused,
                                 const std::vector<Candidate>& fitting,
                                 const clusters::Cluster& cluster) {
  std::vector<Refusal> refusals;
  for (const auto& [reason, count] : space.refused) refusals.push_back({reason, count, ""});
  const int64_t usable = cluster.usable_memory();
  for (const Missing missing : {Missing::state, Missing::activations, Missing::passing}) {
    const Candidate* fastest = nullptr;
    int64_t count = 0;
    for (const Candidate& candidate : refused) {
      if (missing_of(candidate.estimate) != missing) continue;
      ++count;
      if (fastest == nullptr || candidate.least < fastest->least) fastest = &candidate;
    }
    if (fastest == nullptr) continue;
    Refusal refusal;
    refusal.count = count;
    refusal.reason =
        fmt::format("memory, mostly {}: the fastest ({}; {:.4g} s) needs {} of {} on stage {}",
                    name_of(missing), fastest->point.text(), fastest->least,
                    bytes_text(fastest->memory_bytes), bytes_text(usable), fastest->estimate.stage);
    if (const Candidate* const change = nearest(*fastest, fitting)) {
      refusal.mend =
          fmt::format("{} fits: {}, {:.4g} s", changes_text(fastest->point, change->point),
                      bytes_text(change->memory_bytes), change->time.seconds);
    }
    refusals.push_back(std::move(refusal));
  }
  return refusals;
}

std::string empty_space_text(const Space& space, int64_t devices) {
  std::vector<std::string> reasons;
  for (const auto& [reason, count] : space.refused)
    reasons.push_back(fmt::format("{} ({} layouts)", reason, count));
  return fmt::format("no layout of {} devices is possible: {}; change --gpus or train.global_batch",
                     devices, fmt::join(reasons, "; "));
}

std::string nothing_fits_text(const std::vector<Candidate>& refused,
                              const clusters::Cluster& cluster, int64_t devices) {
  const Candidate& least = *std::ranges::min_element(refused, {}, &Candidate::memory_bytes);
  return fmt::format(
      "nothing of {} layouts fits into the {} of a device of {}: the least ({}) needs {}, {} of it "
      "weights, gradients and optimizer state; take more than {} devices (--gpus), devices with "
      "more memory, or a smaller model",
      refused.size(), bytes_text(cluster.usable_memory()), cluster.name, least.point.text(),
      bytes_text(least.memory_bytes), bytes_text(least.estimate.state), devices);
}

}  // namespace megalith::search
