// SPDX-License-Identifier: Apache-2.0
#include "search/ranking.h"

#include <algorithm>
#include <tuple>

#include "account/layout_plan.h"

namespace megalith::search {

using engine::Settings;

namespace {

/// Of layouts that take the same: one order, whichever thread judged them first.
auto key_of(const LayoutPoint& p) {
  return std::tuple(p.schedule, p.zero, p.sequence, p.recompute.mode, p.recompute.full_layers,
                    p.tensor, p.pipeline, p.data, p.chunks, p.micro_batch, p.compute);
}

}  // namespace

bool faster(const Candidate& a, const Candidate& b) {
  if (a.time.seconds != b.time.seconds) return a.time.seconds < b.time.seconds;
  if (a.memory_bytes != b.memory_bytes) return a.memory_bytes < b.memory_bytes;
  return key_of(a.point) < key_of(b.point);
}

void simulate(const Settings& base, const clusters::Cluster& cluster, Candidate& candidate) {
  const Settings s = settings_at(base, candidate.point);
  candidate.time = costs::StepTimes(s, cluster).simulated(s);
  candidate.is_simulated = true;
}

void plan(const Settings& base, const SearchOptions& options, Candidate& candidate) {
  candidate.memory_bytes = 0;
  for (const account::MemoryByClass& memory :
       account::plan_memory(settings_at(base, candidate.point), options.target, options.beside))
    candidate.memory_bytes = std::max(candidate.memory_bytes, memory.total);
  candidate.is_planned = true;
}

namespace {

/// Takes candidates by their bounds, and gives the best of each cut: simulated, planned, fitting.
class Ranking {
 public:
  Ranking(const Settings& base, const clusters::Cluster& cluster, const SearchOptions& options,
          int64_t& simulated)
      : base_(base), cluster_(cluster), options_(options), simulated_(simulated) {}

  /// `all`: in the order of their bounds.
  std::vector<Candidate> rank(std::vector<Candidate>& all) {
    std::vector<Candidate*> best;  // simulated, one of each cut, the fastest first
    do {
      best.clear();
      for (Candidate& candidate : all) {
        if (candidate.is_planned && !fits(candidate)) continue;
        if (best.size() >= options_.top && candidate.least >= best.back()->time.seconds) break;
        if (!candidate.is_simulated) {
          simulate(base_, cluster_, candidate);
          ++simulated_;
        }
        take(best, candidate);
      }
    } while (!plan_all(best));
    std::vector<Candidate> list;
    for (const Candidate* candidate : best) list.push_back(*candidate);
    return list;
  }

 private:
  bool fits(const Candidate& candidate) const {
    return candidate.memory_bytes <= cluster_.usable_memory();
  }
  void take(std::vector<Candidate*>& best, Candidate& candidate) const {
    const auto same = std::ranges::find_if(
        best, [&](const Candidate* b) { return b->point.is_variant_of(candidate.point); });
    if (same != best.end()) {
      if (!faster(candidate, **same)) return;
      best.erase(same);
    }
    const auto place = std::ranges::upper_bound(
        best, &candidate, [](const Candidate* a, const Candidate* b) { return faster(*a, *b); });
    best.insert(place, &candidate);
    if (best.size() > options_.top) best.pop_back();
  }
  /// To the byte; false when one does not fit so.
  bool plan_all(const std::vector<Candidate*>& best) {
    bool all_fit = true;
    for (Candidate* const candidate : best) {
      if (!candidate->is_planned) plan(base_, options_, *candidate);
      all_fit = all_fit && fits(*candidate);
    }
    return all_fit;
  }
  const Settings& base_;
  const clusters::Cluster& cluster_;
  const SearchOptions& options_;
  int64_t& simulated_;
};

}  // namespace

std::vector<Candidate> ranked(const Settings& base, const clusters::Cluster& cluster,
                              const SearchOptions& options, std::vector<Candidate>& all,
                              int64_t& simulated) {
  return Ranking(base, cluster, options, simulated).rank(all);
}

}  // namespace megalith::search
