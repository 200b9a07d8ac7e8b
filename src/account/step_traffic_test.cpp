// SPDX-License-Identifier: Apache-2.0
// What a step puts on the wire, and when: real ranks send byte by byte what a trace says, and
// gradients are on their way to the other data ranks before backward ends.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "account/layout_plan.h"
#include "account/traced_step.h"
#include "comm/backends.h"
#include "device/recorder.h"
#include "testing/toy_model.h"

namespace megalith::account {
namespace {

using device::Recorder;
using megalith::testing::toy_micro_batches;
using megalith::testing::toy_settings;
using megalith::testing::toy_weight;

engine::Settings with(const parallel::Layout& layout, int zero = 0) {
  engine::Settings settings = toy_settings();
  settings.layout = layout;
  settings.zero = zero;
  return settings;
}

/// Of one step of a rank that does not exist.
Recorder traced(const engine::Settings& settings, int rank) {
  const device::Target target{device::DeviceKind::cpu, device::detect_isa(), 1};
  const auto device = device::make_trace_device(target);
  const auto world = comm::make_traced_communicator(*device, rank, settings.layout.num_ranks());
  const parallel::Mesh mesh(*world, settings.layout);
  engine::Engine engine(settings, *device, mesh);
  engine.initialise();
  Recorder recorder;
  recorder.keep_events();
  device->set_recorder(&recorder);
  engine.step(1, 1e-3, shaped_batches(settings), 1);
  device->set_recorder(nullptr);
  return recorder;
}

/// Of one step of each rank.
std::vector<Recorder> executed(const engine::Settings& settings) {
  std::vector<Recorder> recorders(static_cast<size_t>(settings.layout.num_ranks()));
  comm::run_ranks(settings.layout.num_ranks(), [&](comm::Communicator& world) {
    const auto device = device::make_cpu_device(1);
    const parallel::Mesh mesh(world, settings.layout);
    engine::Engine engine(settings, *device, mesh);
    engine.initialise();
    Recorder& recorder = recorders[static_cast<size_t>(world.rank())];
    recorder.keep_events();
    device->set_recorder(&recorder);
    world.set_device(device.get());
    engine.step(1, 1e-3, toy_micro_batches(settings, 1, mesh.at().data), toy_weight(settings, 1));
    world.set_device(nullptr);
    device->set_recorder(nullptr);
  });
  return recorders;
}

/// "layers.0.mlp all_gather" -> calls, bytes sent.
using Traffic = std::map<std::string, std::pair<int64_t, int64_t>>;
Traffic traffic_of(const Recorder& recorder) {
  Traffic traffic;
  for (const device::Record& record : recorder.records()) {
    if (record.work.bytes_wire > 0)
      traffic[record.scope + " " + record.name] = {record.calls, record.work.bytes_wire};
  }
  return traffic;
}

TEST(StepTraffic, RanksSendWhatIsPlanned) {
  engine::Settings chunks = with({.pipeline = 2, .chunks = 2});
  chunks.model.set_num_layers(5);
  chunks.pipeline_schedule = parallel::ScheduleKind::interleaved;
  for (const engine::Settings& settings :
       {with({.tensor = 2}), with({.tensor = 2, .sequence = true}), with({.data = 2}),
        with({.data = 2}, 1), with({.pipeline = 2}), chunks,
        with({.tensor = 2, .pipeline = 2, .data = 2, .sequence = true}, 1)}) {
    const std::vector<Recorder> ranks = executed(settings);
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const Traffic traffic = traffic_of(ranks[rank]);
      EXPECT_FALSE(traffic.empty());
      EXPECT_EQ(traffic, traffic_of(traced(settings, static_cast<int>(rank))))
          << settings.layout.num_ranks() << " ranks, rank " << rank;
    }
  }
}

/// Where in the order of a step's calls things are.
struct Order {
  std::vector<size_t> starts;                          // of a bucket's way over the data ranks
  std::vector<size_t> forwards;                        // a part of the model's
  std::map<std::string, size_t> last_weight_gradient;  // by part of the model
};

Order order_of(const Recorder& recorder) {
  Order order;
  const std::set<std::string> sends{"all_to_all", "send", "receive"};
  for (size_t i = 0; i < recorder.events().size(); ++i) {
    const device::Record& record = recorder.records()[recorder.events()[i].record];
    if (record.scope == "gradients" && sends.contains(record.name)) order.starts.push_back(i);
    if (record.name == "attention_forward") order.forwards.push_back(i);
    if (record.name == "linear_backward_weight" || record.name == "embedding_backward")
      order.last_weight_gradient[record.scope] = i;
  }
  return order;
}

void expect_early_but_not_too_early(const Recorder& recorder, const std::string& what) {
  const Order order = order_of(recorder);
  ASSERT_GE(order.starts.size(), 4u) << what;
  EXPECT_GT(order.starts.front(), order.forwards.back()) << what << ": before the last micro-batch";
  // The last block is under way before the first one's backward, and that before the embedding's.
  EXPECT_GT(order.starts.front(), order.last_weight_gradient.at("layers.2.attention")) << what;
  EXPECT_LT(order.starts.front(), order.last_weight_gradient.at("layers.0.mlp")) << what;
  const size_t embedding = order.last_weight_gradient.at("embedding");
  EXPECT_GT(order.starts.back(), embedding) << what;
  const auto before =
      std::ranges::count_if(order.starts, [&](size_t start) { return start < embedding; });
  EXPECT_GE(2 * before, std::ssize(order.starts)) << what << ": more than half wait for the end";
}

TEST(StepTraffic, GradientsTravelWhileBackwardGoesOn) {
  for (const int zero : {0, 1}) {
    for (const int64_t micro_batch : {1, 4}) {
      engine::Settings settings = with({.data = 2}, zero);
      settings.micro_batch = micro_batch;
      const std::string what = "zero " + std::to_string(zero);
      expect_early_but_not_too_early(traced(settings, 0), what + ", traced");
      for (const Recorder& rank : executed(settings)) expect_early_but_not_too_early(rank, what);
    }
  }
}

/// With two data shards on a rank, its own additions go with the buckets.
TEST(StepTraffic, BucketsFollowTheLastOfARanksDataShards) {
  engine::Settings settings = with({.data = 2});
  settings.split.data_shards = 4;
  settings.micro_batch = 1;
  expect_early_but_not_too_early(traced(settings, 0), "two shards");
}

/// With spread state, ranks that all have the codes of a weight need not have the weight: a byte
/// for each number travels where two do.
TEST(StepTraffic, RanksExchangeCodesOfWeights) {
  const auto sent = [](const engine::Settings& settings) {
    const LayoutPlan plan = plan_layout(settings, device::cpu_target(1), {});
    int64_t bytes = 0;
    for (int rank = 0; rank < settings.layout.num_ranks(); ++rank)
      bytes += plan.of(rank).wire_bytes.at("send");
    return bytes;
  };
  engine::Settings settings = testing::toy_settings();
  settings.weights = settings.activations = DType::bf16;
  settings.split.data_shards = 2;
  settings.layout = {.data = 2};
  settings.zero = 1;
  const int64_t wide = sent(settings);
  const models::ModelSpec& model = settings.model;
  const int64_t elements =
      model.num_layers() * (4 * model.hidden + 2 * model.layer(0).mlp.ffn) * model.hidden;
  for (const auto policy : {precision::ScalingPolicy::delayed, precision::ScalingPolicy::current}) {
    engine::Settings narrow = settings;
    narrow.fp8.emplace();
    narrow.fp8->options.scaling = precision::ScalingOptions::of(policy);
    // The flat weights are sent with the gaps between neighbours, which codes have less of.
    EXPECT_GE(wide - sent(narrow), elements);
    EXPECT_LE(wide - sent(narrow), elements + model.num_layers() * 4 * 2 * 64);
    narrow.fp8->guard.every = 100;  // checks read weights
    EXPECT_EQ(sent(narrow), wide);
  }
}

}  // namespace
}  // namespace megalith::account
