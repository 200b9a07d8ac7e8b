// SPDX-License-Identifier: Apache-2.0
#include "apps/plan/search_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "account/layout_plan.h"
#include "report/search_page.h"

namespace megalith::apps {
namespace {

/// More would make the page slow.
constexpr size_t kMostBars = 20000;

report::SchedulePicture schedule_of(const engine::Settings& s, const clusters::Cluster& cluster) {
  parallel::Timeline timeline;
  costs::StepTimes(s, cluster).simulated(s, &timeline);
  report::SchedulePicture picture;
  picture.title = fmt::format("{}: {} stages, {} micro-batches, {} chunks; {:.4g} s",
                              settings::name_of(s.pipeline_schedule), s.layout.pipeline,
                              costs::micro_batches_of(s), s.layout.chunks, timeline.end);
  for (int stage = 0; stage < s.layout.pipeline; ++stage)
    picture.stages.push_back(fmt::format("stage {}", stage));
  std::ranges::stable_sort(timeline.spans, {}, &parallel::Span::begin);
  if (timeline.spans.size() > kMostBars) {
    timeline.spans.resize(kMostBars);
    picture.title += fmt::format(" (the first {} passes)", kMostBars);
  }
  for (const parallel::Span& span : timeline.spans) {
    picture.bars.push_back({span.stage, span.action.micro_batch, span.action.chunk,
                            span.action.kind == parallel::ActionKind::backward, span.begin,
                            span.end});
  }
  return picture;
}

/// The rank of each stage that takes most.
void add_stages(const engine::Settings& s, const account::BesideSteps& beside,
                report::SearchPage& page) {
  const device::Target target{device::DeviceKind::cpu, device::Isa::avx512_bf16, 1};
  const account::LayoutPlan plan = account::plan_layout(s, target, beside);
  for (int i = 0; i < device::kNumMemoryClasses; ++i)
    page.classes.emplace_back(name_of(static_cast<device::MemoryClass>(i)));
  for (int stage = 0; stage < s.layout.pipeline; ++stage) {
    const account::RankPlan* most = nullptr;
    for (const account::RankPlan& ranks : plan.classes) {
      if (ranks.stage == stage && (most == nullptr || ranks.memory.total > most->memory.total))
        most = &ranks;
    }
    report::SearchPageStage row;
    row.name =
        fmt::format("stage {}: {:.1f} GiB at most at once", stage, in_gib(most->memory.total));
    for (const int64_t bytes : most->memory.bytes) row.gib.push_back(in_gib(bytes));
    page.stages.push_back(std::move(row));
  }
}

}  // namespace

void write_search_page(const SearchReport& r, const account::BesideSteps& beside,
                       const std::string& path) {
  const search::SearchResult& result = r.result;
  const engine::Settings best = search::settings_at(r.settings, result.best.front().point);
  report::SearchPage page;
  page.title = fmt::format("Layouts on {} of {}", result.devices, r.cluster.name);
  page.facts = {
      fmt::format("{} parameters, {} tokens a step", r.settings.model.num_parameters(),
                  r.settings.batch.full * r.settings.sequence_length()),
      fmt::format("{} candidates judged, {} do not fit, {} schedules run; times and parts are "
                  "predicted",
                  result.judged, result.refused, result.simulated)};
  page.parts = {"compute", "recompute", "wire", "bubble", "gradients", "optimizer"};
  for (const search::Candidate& c : result.best) {
    const costs::Breakdown& b = c.time.parts;
    page.rows.push_back({c.measured
                             ? c.point.text() + fmt::format(", measured {:.4g} s", *c.measured)
                             : c.point.text(),
                         c.time.seconds,
                         c.time.mfu,
                         in_gib(c.memory_bytes),
                         {b.compute, b.recompute, b.wire, b.bubble, b.gradients, b.optimizer}});
    page.points.push_back({c.time.seconds, in_gib(c.memory_bytes), c.point.text(), true});
  }
  for (const search::Candidate& c : result.pareto)
    page.points.push_back({c.time.seconds, in_gib(c.memory_bytes), c.point.text(), false});
  page.limit_gib = in_gib(r.cluster.usable_memory());
  page.schedule = schedule_of(best, r.cluster);
  add_stages(best, beside, page);
  for (const search::Sensitivity& s : result.sensitivities)
    page.changes.push_back({s.change, s.seconds});
  for (const search::Refusal& refusal : result.refusals) {
    page.refusals.push_back(fmt::format("{} x {}{}{}", refusal.count, refusal.reason,
                                        refusal.mend.empty() ? "" : "; ", refusal.mend));
  }
  page.assumptions = costs::assumptions(r.cluster, best);
  report::write_search_page(page, path);
}

}  // namespace megalith::apps
