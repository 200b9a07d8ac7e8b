// SPDX-License-Identifier: Apache-2.0
#include "serving_plan/served_load.h"

#include <gtest/gtest.h>

#include <numeric>

#include "families/families.h"

namespace megalith::serving_plan {
namespace {

/// 1 ms a kernel and nothing else: passes take the same time, and those that read a prompt another,
/// whatever is in them.
clusters::Cluster clock_of_passes() {
  return clusters::parse_cluster(
      "device: {memory: 1e12, bandwidth: 1e19, launch_seconds: 0.001,\n"
      "  products: [{type: bf16, peak: 1e19, share: 1}]}\n",
      "clock.yaml");
}

class ServedLoadTest : public ::testing::Test {
 protected:
  ServedLatencies serve(const ServedLoad& load, int64_t batch, int64_t blocks = 100000,
                        int64_t tokens = 512) {
    return serve_load(times_, inference::kv_groups(spec_), {blocks},
                      {.sequences = batch, .tokens = tokens}, load);
  }
  clusters::Cluster cluster_ = clock_of_passes();
  models::ModelSpec spec_ = models::gpt2({.layers = 2, .hidden = 64, .heads = 2, .vocab = 128});
  PassTimes times_{spec_, cluster_, {}};
  double pass_of(double tokens) const {
    const Rows row{.count = tokens};
    return times_.through({&row, 1});
  }
  double pass_ = pass_of(1), prompt_ = pass_of(2);
};

TEST_F(ServedLoadTest, ALoneRequestTakesItsPasses) {
  // So seldom that no two meet: one pass reads, nine write on.
  const ServedLatencies r =
      serve({.arrivals = 1e-3, .input = 100, .output = 10, .requests = 20}, 4);
  EXPECT_NEAR(r.first.back(), prompt_, 1e-6 * pass_);
  EXPECT_NEAR(r.whole.back(), prompt_ + 9 * pass_, 1e-5 * pass_);
  EXPECT_NEAR(r.between.front(), pass_, 1e-5 * pass_);
  EXPECT_EQ(r.passes, 200);
  EXPECT_NEAR(r.mean_running, 1, 1e-12);
  EXPECT_NEAR(r.growth, 1, 0.01);
}

TEST_F(ServedLoadTest, APromptLongerThanAPassTakesSeveral) {
  const ServedLatencies r =
      serve({.arrivals = 1e-3, .input = 100, .output = 10, .requests = 20}, 4, 100000, 30);
  EXPECT_NEAR(r.first.front(), 4 * prompt_, 1e-5 * pass_);
}

/// Prompts that come together are read one behind the other, each beside the steps of those before,
/// whose tokens leave less room in a pass.
TEST_F(ServedLoadTest, AllAtOnceWaitForOneAnother) {
  const ServedLatencies r =
      serve({.arrivals = 0, .input = 30, .output = 20, .requests = 4}, 4, 100000, 30);
  EXPECT_NEAR(r.first.front(), prompt_, 1e-9);
  EXPECT_GT(r.first.back(), 4.5 * prompt_);
  EXPECT_EQ(r.whole.back(), r.seconds);
  // The last text is alone for less than its length.
  EXPECT_LT(r.whole.front(), r.whole.back());
  const ServedLatencies roomy =
      serve({.arrivals = 0, .input = 30, .output = 20, .requests = 4}, 4, 100000, 120);
  EXPECT_EQ(roomy.first.front(), roomy.first.back());
  EXPECT_NEAR(roomy.seconds, roomy.first.back() + 19 * pass_, 1e-9);
}

TEST_F(ServedLoadTest, MoreThanIsAnsweredMakesTheQueueGrow) {
  // A batch of 4 answers 4 requests in ten passes.
  const double answered = 4 / (10 * pass_);
  const ServedLoad load{.input = 10, .output = 10, .requests = 400};
  const auto at = [&](double share) {
    ServedLoad changed = load;
    changed.arrivals = share * answered;
    return serve(changed, 4);
  };
  const ServedLatencies calm = at(0.3), full = at(2);
  EXPECT_LT(calm.growth, 1.3);
  EXPECT_GT(full.growth, 1.5);
  EXPECT_GT(full.mean_running, 3.9);
  EXPECT_LT(quantile(calm.whole, 0.95), 0.3 * quantile(full.whole, 0.95));
}

TEST_F(ServedLoadTest, FewBlocksMakeRequestsWaitOrComeBack) {
  const double answered = 8 / (40 * pass_);
  const ServedLoad load{.arrivals = answered, .input = 200, .output = 40, .requests = 200};
  const int64_t of_one = inference::kv_groups(spec_).size() == 1 ? 8 : 0;
  const ServedLatencies roomy = serve(load, 8), tight = serve(load, 8, 2 * of_one);
  EXPECT_EQ(roomy.preemptions, 0);
  EXPECT_LT(tight.mean_running, roomy.mean_running);
  EXPECT_GT(quantile(tight.whole, 0.5), quantile(roomy.whole, 0.5));
}

TEST_F(ServedLoadTest, IsAFunctionOfItsSeed) {
  const ServedLoad load{.arrivals = 1, .input = 50, .output = 20, .requests = 100, .seed = 7};
  ServedLoad other = load;
  other.seed = 8;
  EXPECT_EQ(serve(load, 4).whole, serve(load, 4).whole);
  EXPECT_NE(serve(load, 4).whole, serve(other, 4).whole);
}

TEST(Quantile, IsTheValueThatAPartDoesNotExceed) {
  std::vector<double> values(101);
  std::iota(values.begin(), values.end(), 0);
  EXPECT_EQ(quantile(values, 0.95), 95);
  EXPECT_EQ(quantile(values, 0), 0);
  EXPECT_EQ(quantile(values, 1), 100);
  EXPECT_EQ(quantile({3}, 0.95), 3);
}

}  // namespace
}  // namespace megalith::serving_plan
