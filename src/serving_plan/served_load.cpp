// SPDX-License-Identifier: Apache-2.0
#include "serving_plan/served_load.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "base/check.h"
#include "math/elementary_double.h"
#include "math/random.h"

namespace megalith::serving_plan {
namespace {

using generate::Scheduler;
using generate::Sequence;

/// Sequences of which a pass does the same.
bool is_alike(const Rows& a, const Rows& b) {
  return a.count == b.count && a.past == b.past && a.chooses == b.chooses;
}

struct Served {
  Sequence sequence;
  double arrived = 0, first = 0, ended = 0;
};

class Server {
 public:
  Server(const PassTimes& times, const std::vector<inference::KvGroup>& groups,
         const std::vector<int64_t>& blocks, const Scheduler::Limits& limits,
         const ServedLoad& load)
      : times_(times),
        load_(load),
        store_(groups, blocks, limits.tokens, false),
        scheduler_(store_, limits) {
    const uint64_t key = random_key(load.seed, "serving_plan.arrivals");
    double moment = 0;
    for (int64_t i = 0; i < load.requests; ++i) {
      const auto draw = static_cast<uint64_t>(i);
      if (load.arrivals > 0)
        moment -= elementary::log(uniform_open(philox(key, draw, 0)[0])) / load.arrivals;
      Served& served = *requests_.emplace_back(std::make_unique<Served>());
      served.arrived = moment;
      served.sequence.number = draw;
      served.sequence.client = "client";
      served.sequence.most = load.input + load.output;
      served.sequence.ids.assign(static_cast<size_t>(load.input), static_cast<int32_t>(i));
    }
  }

  ServedLatencies run() {
    ServedLatencies result;
    double running = 0;
    while (ended_ < load_.requests) {
      arrive();
      const auto& parts = scheduler_.plan();
      if (parts.empty()) {  // nothing to do until the next comes
        now_ = requests_[static_cast<size_t>(next_)]->arrived;
        continue;
      }
      now_ += pass(parts);
      running += static_cast<double>(scheduler_.running());
      ++result.passes;
      std::vector<Sequence*> wrote;
      for (const Scheduler::Part& part : parts)
        if (part.is_last()) wrote.push_back(part.sequence);
      scheduler_.advance();
      for (Sequence* sequence : wrote) write(*sequence);
    }
    result.seconds = now_;
    result.preemptions = scheduler_.preemptions();
    result.mean_running = running / static_cast<double>(result.passes);
    collect(result);
    return result;
  }

 private:
  void arrive() {
    while (next_ < load_.requests && requests_[static_cast<size_t>(next_)]->arrived <= now_) {
      const bool has_place = scheduler_.submit(requests_[static_cast<size_t>(next_)]->sequence);
      MEGA_CHECK(has_place, "the queue is as long as the load");
      ++next_;
    }
  }

  double pass(const std::vector<Scheduler::Part>& parts) {
    rows_.clear();
    for (const Scheduler::Part& part : parts) {
      const Rows rows{.count = static_cast<double>(part.count),
                      .past = static_cast<double>(part.line().past),
                      .times = 1,
                      .chooses = part.is_last()};
      if (!rows_.empty() && is_alike(rows_.back(), rows)) {
        ++rows_.back().times;
      } else {
        rows_.push_back(rows);
      }
    }
    return times_.through(rows_);
  }

  void write(Sequence& sequence) {
    Served& served = *requests_[sequence.number];
    if (std::ssize(sequence.ids) == load_.input) served.first = now_;
    sequence.ids.push_back(0);
    if (std::ssize(sequence.ids) < sequence.most) return;
    served.ended = now_;
    scheduler_.leave(sequence);
    ++ended_;
  }

  void collect(ServedLatencies& result) const {
    for (const auto& served : requests_) {
      result.first.push_back(served->first - served->arrived);
      result.whole.push_back(served->ended - served->arrived);
      result.between.push_back((served->ended - served->first) /
                               static_cast<double>(std::max<int64_t>(load_.output - 1, 1)));
    }
    const auto quarter = static_cast<int64_t>(result.whole.size()) / 4;
    const auto sum = [&](int64_t from) {
      return std::accumulate(result.whole.begin() + from, result.whole.begin() + from + quarter,
                             0.0);
    };
    result.growth = quarter > 0 ? sum(3 * quarter) / sum(quarter) : 1;
    for (auto* values : {&result.first, &result.between, &result.whole}) std::ranges::sort(*values);
  }

  const PassTimes& times_;
  const ServedLoad& load_;
  std::vector<std::unique_ptr<Served>> requests_;  // at fixed addresses, as sequences have to be
  generate::BlockStore store_;
  Scheduler scheduler_;
  std::vector<Rows> rows_;
  double now_ = 0;
  int64_t next_ = 0, ended_ = 0;
};

}  // namespace

double quantile(const std::vector<double>& sorted, double part) {
  MEGA_CHECK(!sorted.empty());
  return sorted[static_cast<size_t>(std::ceil(part * static_cast<double>(sorted.size() - 1)))];
}

ServedLatencies serve_load(const PassTimes& times, const std::vector<inference::KvGroup>& groups,
                           const std::vector<int64_t>& blocks, Scheduler::Limits limits,
                           const ServedLoad& load) {
  limits.waiting = load.requests;
  return Server(times, groups, blocks, limits, load).run();
}

}  // namespace megalith::serving_plan
