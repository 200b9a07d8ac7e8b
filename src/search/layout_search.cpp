// SPDX-License-Identifier: Apache-2.0
#include "search/layout_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include "base/error.h"
#include "base/thread_pool.h"
#include "search/ranking.h"
#include "search/refusals.h"

namespace megalith::search {
namespace {

using engine::Settings;

/// Points whose layers are the same on a rank: they share traces and times.
struct Task {
  std::vector<LayoutPoint> points;
};

std::vector<Task> tasks_of(const Space& space) {
  std::map<std::tuple<int, bool, int64_t, int>, Task> tasks;
  for (const LayoutPoint& p : space.points)
    tasks[{p.tensor, p.sequence, p.micro_batch, static_cast<int>(p.compute)}].points.push_back(p);
  std::vector<Task> list;
  for (auto& [key, task] : tasks) list.push_back(std::move(task));
  return list;
}

/// What threads find together.
struct Found {
  std::mutex mutex;
  std::vector<Candidate> fitting;
  std::vector<Candidate> refused;
  int64_t judged = 0;
};

/// Judges the points of a task with every choice inside of each.
class Judge {
 public:
  Judge(const Settings& base, const clusters::Cluster& cluster, const device::Target& target,
        SchedulesInFlight& schedules)
      : base_(base),
        cluster_(cluster),
        settings_(base),
        times_(base, cluster),
        memory_(base, target, schedules) {}

  void judge(const LayoutPoint& point) {
    for (const int zero : {0, 1}) {
      if (zero > 0 && point.data == 1) continue;
      using layers::Recompute;
      for (const Recompute mode : {Recompute::none, Recompute::selective, Recompute::full})
        with_recompute(point, zero, mode);
    }
  }
  void give(Found& found) {
    const std::lock_guard lock(found.mutex);
    std::ranges::move(fitting_, std::back_inserter(found.fitting));
    std::ranges::move(refused_, std::back_inserter(found.refused));
    found.judged += judged_;
  }

 private:
  /// The mode for all layers; else with as few layers in full as fit.
  void with_recompute(LayoutPoint point, int zero, layers::Recompute mode) {
    point.zero = zero;
    point.recompute = {mode, 0};
    if (fits(point)) return add();
    refused_.push_back(candidate_);
    if (mode == layers::Recompute::full) return;
    const int64_t layers = (base_.model.num_layers() + point.pipeline - 1) / point.pipeline;
    int64_t too_few = 0, enough = layers;  // all of them are mode full, which is judged by itself
    while (enough - too_few > 1) {
      point.recompute.full_layers = (too_few + enough) / 2;
      (fits(point) ? enough : too_few) = point.recompute.full_layers;
    }
    if (enough == layers) return;
    point.recompute.full_layers = enough;
    --judged_;  // it was among them
    if (fits(point)) add();
  }
  bool fits(const LayoutPoint& point) {
    ++judged_;
    move_to(settings_, base_, point);
    candidate_ = {};
    candidate_.point = point;
    candidate_.estimate = memory_.of(settings_);
    candidate_.memory_bytes = candidate_.estimate.total();
    return candidate_.memory_bytes <= cluster_.usable_memory();
  }
  /// The one that `fits` was asked last.
  void add() {
    candidate_.time = times_.least(settings_);
    candidate_.least = candidate_.time.seconds;
    fitting_.push_back(candidate_);
  }
  const Settings& base_;
  const clusters::Cluster& cluster_;
  Settings settings_;
  costs::StepTimes times_;
  MemoryEstimate memory_;
  Candidate candidate_;
  std::vector<Candidate> fitting_, refused_;
  int64_t judged_ = 0;
};

void judge_all(const Space& space, const Settings& base, const clusters::Cluster& cluster,
               const SearchOptions& options, SchedulesInFlight& schedules, Found& found) {
  const std::vector<Task> tasks = tasks_of(space);
  std::atomic<size_t> next = 0;
  ThreadPool pool(std::max(1, options.threads > 0 ? options.threads : available_cores()));
  pool.run([&](int) {
    for (size_t i = next++; i < tasks.size(); i = next++) {
      Judge judge(base, cluster, options.target, schedules);
      for (const LayoutPoint& point : tasks[i].points) judge.judge(point);
      judge.give(found);
    }
  });
}

/// How fast they would be if they fitted.
void bound_refused(const Settings& base, const clusters::Cluster& cluster,
                   std::vector<Candidate>& refused) {
  Settings settings = base;
  costs::StepTimes times(base, cluster);
  for (Candidate& candidate : refused) {
    move_to(settings, base, candidate.point);
    candidate.time = times.least(settings);
    candidate.least = candidate.time.seconds;
  }
}

void mark_variants(const std::vector<Candidate>& all, SearchResult& result) {
  for (Candidate& shown : result.best) {
    shown.variants = static_cast<int>(std::ranges::count_if(
        all, [&](const Candidate& c) { return c.point.is_variant_of(shown.point); }));
  }
}

/// Of those judged, in the order of their times: nothing is both faster and smaller.
std::vector<Candidate> pareto_of(const std::vector<Candidate>& all) {
  std::vector<Candidate> front;
  for (const Candidate& candidate : all) {
    if (front.empty() || candidate.memory_bytes < front.back().memory_bytes)
      front.push_back(candidate);
  }
  for (Candidate& candidate : front) candidate.is_pareto = true;
  return front;
}

/// Rates of the machine, and memory: the first layout that would fit with more and be faster.
void add_sensitivities(const Settings& base, const clusters::Cluster& cluster,
                       std::vector<Candidate>& refused, SearchResult& result) {
  const Candidate& best = result.best.front();
  result.sensitivities = sensitivities_of(settings_at(base, best.point), cluster);
  std::ranges::sort(refused, {}, &Candidate::memory_bytes);
  double fastest = best.time.seconds;
  for (const Candidate& candidate : refused) {
    if (candidate.time.seconds >= 0.99 * fastest) continue;
    fastest = candidate.time.seconds;
    const double more = static_cast<double>(candidate.memory_bytes - cluster.usable_memory());
    result.sensitivities.push_back(
        {fmt::format("{:.1f} GiB more memory: {}", more / (1 << 30), candidate.point.text()),
         candidate.time.seconds});
  }
}

/// The recipe's own layout among cuts, if it has the devices.
void place_own(const Settings& base, const clusters::Cluster& cluster, const SearchOptions& options,
               const std::vector<Candidate>& all, SchedulesInFlight& schedules,
               SearchResult& result) {
  const LayoutPoint own = point_of(base);
  if (own.tensor * own.pipeline * own.data != result.devices) return;
  result.own.point = own;
  result.own.estimate = MemoryEstimate(base, options.target, schedules).of(base);
  result.own.memory_bytes = result.own.estimate.total();
  simulate(base, cluster, result.own);
  std::vector<LayoutPoint> before;
  for (const Candidate& c : all) {
    if (c.time.seconds >= result.own.time.seconds) continue;
    const auto same = [&](const LayoutPoint& p) { return p.is_variant_of(c.point); };
    if (!same(own) && std::ranges::none_of(before, same)) before.push_back(c.point);
  }
  result.own_place = std::ssize(before) + 1;
}

}  // namespace

SearchResult search_layouts(const Settings& base, const clusters::Cluster& cluster,
                            const SearchOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  SearchResult result;
  result.devices = options.devices > 0 ? options.devices : cluster.devices();
  if (result.devices > cluster.devices())
    throw UserError("{} devices are more than the {} of cluster {}", result.devices,
                    cluster.devices(), cluster.name);
  cluster.known(costs::product_type(base));  // said before the work, not after
  Space space = space_of(base, result.devices);
  if (space.points.empty()) throw UserError("{}", empty_space_text(space, result.devices));
  if (options.also_fp8) {
    if (base.weights == DType::f16 || base.activations == DType::f16)
      throw UserError(
          "products in 8 bits are tried beside bf16, not f16; set precision.parameters and "
          "precision.compute: bf16");
    cluster.known(clusters::ProductType::fp8);
    const std::vector<LayoutPoint> wide = space.points;
    for (LayoutPoint point : wide) {
      point.compute = config::Compute::fp8;
      space.points.push_back(point);
    }
  }
  if (options.progress)
    options.progress(fmt::format("{} cuts of {} devices", space.points.size(), result.devices));
  Found found;
  SchedulesInFlight schedules;
  judge_all(space, base, cluster, options, schedules, found);
  std::erase_if(found.fitting, [&](const Candidate& candidate) {
    return std::ranges::find(options.left_out, candidate.point) != options.left_out.end();
  });
  result.judged = found.judged;
  result.refused = std::ssize(found.refused);
  bound_refused(base, cluster, found.refused);
  result.refusals = refusals_of(space, found.refused, found.fitting, cluster);
  if (found.fitting.empty())
    throw UserError("{}", nothing_fits_text(found.refused, cluster, result.devices));
  if (options.progress)
    options.progress(
        fmt::format("{} candidates judged, {} fit", result.judged, found.fitting.size()));
  std::ranges::sort(found.fitting, faster);
  result.pareto = pareto_of(found.fitting);
  result.best = ranked(base, cluster, options, found.fitting, result.simulated);
  if (result.best.empty()) {  // by estimate they did
    std::ranges::copy(found.fitting, std::back_inserter(found.refused));
    throw UserError("{}", nothing_fits_text(found.refused, cluster, result.devices));
  }
  mark_variants(found.fitting, result);
  add_sensitivities(base, cluster, found.refused, result);
  place_own(base, cluster, options, found.fitting, schedules, result);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace megalith::search
