// SPDX-License-Identifier: Apache-2.0
#include "search/memory_estimate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "account/layout_plan.h"
#include "account/paper_table.h"
#include "config/recipe.h"
#include "engine/from_recipe.h"
#include "families/families.h"
#include "models/recipe_model.h"
#include "search/layout_point.h"

namespace megalith::search {
namespace {

const device::Target kTarget{device::DeviceKind::cpu, device::Isa::avx512_bf16, 1};

int64_t planned(const engine::Settings& s) {
  int64_t most = 0;
  for (const account::MemoryByClass& memory : account::plan_memory(s, kTarget, {}))
    most = std::max(most, memory.total);
  return most;
}

/// The estimate against the plan to the byte, over layouts of the 22B and the 175B model.
TEST(MemoryEstimate, IsThePlanWithinFivePercent) {
  using layers::Recompute;
  SchedulesInFlight schedules;
  for (const size_t row : {size_t{0}, size_t{1}}) {
    engine::Settings base =
        account::paper_settings(account::paper_models()[row], false, Recompute::none);
    base.batch.full = 64;
    base.split.data_shards = 1;
    MemoryEstimate of_model(base, kTarget, schedules);
    const Space space = space_of(base, row == 0 ? 16 : 64);
    ASSERT_GT(space.points.size(), 100u);
    // Some of all kinds: every 23rd.
    for (size_t i = 0; i < space.points.size(); i += 23) {
      LayoutPoint point = space.points[i];
      point.recompute.mode = static_cast<Recompute>(i % 3);
      point.recompute.full_layers = i % 4 == 1 ? 1 : 0;
      point.zero = i % 2 == 1 && point.data > 1 ? 1 : 0;
      const engine::Settings s = settings_at(base, point);
      const auto exact = static_cast<double>(planned(s));
      const auto guess = static_cast<double>(of_model.of(s).total());
      const MemoryOfStage m = of_model.of(s);
      const auto gb = [](auto bytes) { return static_cast<double>(bytes) / 1e9; };
      const std::string what = fmt::format(
          "{:+.3f}: {:.2f} is {:.2f} state, {:.2f} kept, {:.2f} passing, not {:.2f}: {}",
          guess / exact - 1, gb(guess), gb(m.state), gb(m.activations), gb(m.passing), gb(exact),
          point.text());
      EXPECT_GE(guess / exact, 0.95) << what;
      EXPECT_LE(guess / exact, 1.05) << what;
    }
  }
}

/// Of an encoder-decoder it is the plan.
TEST(MemoryEstimate, OfTwoStacksIsThePlan) {
  const config::Recipe recipe = config::parse_recipe(
      "model: {family: t5, layers: 2, hidden: 64, heads: 4, head_dim: 16, ffn: 128, context: 64, "
      "vocab: 512}\ntrain: {objective: spans, steps: 1, global_batch: 8, micro_batch: 2}\n",
      "t5", std::span<const std::string>(), models::complete);
  const engine::Settings base = engine::settings_of(recipe, 512);
  SchedulesInFlight schedules;
  MemoryEstimate of_model(base, kTarget, schedules);
  size_t tried = 0;
  for (const LayoutPoint& point : space_of(base, 4).points) {
    if (++tried % 7 != 1) continue;
    const engine::Settings s = settings_at(base, point);
    const MemoryOfStage estimate = of_model.of(s);
    EXPECT_EQ(estimate.total(), planned(s)) << point.text();
    EXPECT_GT(estimate.state, 0);
    EXPECT_GT(estimate.activations, 0);
  }
  EXPECT_GT(tried, 20u);
}

}  // namespace
}  // namespace megalith::search
