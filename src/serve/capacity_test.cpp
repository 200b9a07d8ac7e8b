// SPDX-License-Identifier: Apache-2.0
#include "serve/capacity.h"

#include <gmock/gmock.h>

#include "account/memory_fit.h"
#include "account/plan.h"
#include "serve/toy_loop_testing.h"

namespace megalith::serve {
namespace {

using ::testing::HasSubstr;

Capacity planned(int64_t memory, const parallel::Layout& layout = {}) {
  return plan_capacity(toy_spec(), {.tensor_shards = 2, .layout = layout}, device::cpu_target(1),
                       {.sequences = 4, .tokens = 64, .context = kToyContext, .memory = memory});
}

TEST(Capacity, IsWhatAllTextsNeedAndNoMore) {
  const Capacity much = planned(int64_t{1} << 40);
  EXPECT_EQ(much.sequences, 4);
  EXPECT_EQ(much.blocks, std::vector<int64_t>(much.blocks.size(), 4 * kToyContext / 64));
  const Capacity two = planned(much.model_bytes + much.cache_bytes / 2);
  EXPECT_EQ(two.sequences, 2);
  EXPECT_EQ(two.blocks[0], much.blocks[0] / 2);
}

TEST(Capacity, SaysWhatIsMissing) {
  const Capacity much = planned(int64_t{1} << 40);
  EXPECT_EQ(planned(much.model_bytes + much.cache_bytes / 4).sequences, 1);
  try {
    planned(much.model_bytes + much.cache_bytes / 4 - 1);
    FAIL() << "it fits";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr(account::bytes_text(much.model_bytes)));
    EXPECT_THAT(error.what(), HasSubstr("--context"));
  }
}

TEST(Capacity, CountsWhatTheModelAndItsBlocksTake) {
  const Capacity plan = planned(int64_t{1} << 40);
  const auto device = device::make_cpu_device(1);
  engine::InferenceModel model(toy_spec(), *device, {.tensor_shards = 2});
  fill_toy(model, *device);
  generate::BatchGenerator generator(
      model.engine(), nullptr, {.limits = {.sequences = 4, .tokens = 64}, .blocks = plan.blocks});
  for (int i = 0; i < 4; ++i) {
    const protocols::PreparedSequence asked = toy_sequence(i, kToyContext, 0);
    generator.submit({.prompt = asked.prompt, .options = asked.options});
  }
  while (generator.step()) {
  }
  const int64_t taken = account::memory_of(*device).total;
  EXPECT_LE(taken, plan.model_bytes + plan.cache_bytes - account::kOutsideBytes);
  EXPECT_GT(taken, (plan.model_bytes + plan.cache_bytes - account::kOutsideBytes) / 2);
}

TEST(Capacity, IsOfAllRanksTogether) {
  const Capacity one = planned(int64_t{1} << 40);
  const Capacity four = planned(int64_t{1} << 40, {.tensor = 2, .pipeline = 2});
  EXPECT_EQ(four.blocks, one.blocks);
  EXPECT_EQ(four.cache_bytes, one.cache_bytes);
}

}  // namespace
}  // namespace megalith::serve
