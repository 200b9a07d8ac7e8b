// SPDX-License-Identifier: Apache-2.0
// What a checkpoint sees of spread state is what a run without spreading has; and it comes back.
#include "engine/sharded_optimizer_state.h"

#include <gtest/gtest.h>

#include "comm/backends.h"
#include "testing/logical_state.h"
#include "testing/toy_model.h"

namespace megalith::engine {
namespace {

using megalith::testing::LogicalState;

Settings settings_of(DType dtype) {
  Settings s = megalith::testing::toy_settings();
  s.model.hidden = 192;  // owners meet inside tensors
  testing::set_ffn(s.model, 768);
  s.weights = s.activations = dtype;
  return s;
}

/// Two steps, then masters and moments as whole tensors. Afterwards every rank loads its moments
/// from what came together; `again` is the state after that.
void collect(const Settings& s, LogicalState& state, LogicalState& again) {
  comm::run_ranks(s.layout.num_ranks(), [&](comm::Communicator& world) {
    const auto device = device::make_cpu_device(1);
    const parallel::Mesh mesh(world, s.layout);
    Engine engine(s, *device, mesh);
    engine.initialise();
    for (int64_t step = 1; step <= 2; ++step) {
      engine.step(step, 1e-2, megalith::testing::toy_micro_batches(s, step, mesh.at().data),
                  megalith::testing::toy_weight(s, step));
    }
    ShardedOptimizerState spread(engine);
    size_t index = 0;
    for (const parameters::Parameter& parameter : engine.parameters().all()) {
      const int root = static_cast<int>(index) % s.layout.data;
      const auto add = [&](const char* kind, ConstView whole, View part) {
        std::vector<std::byte> bytes;
        if (!whole.absent()) {
          bytes.resize(static_cast<size_t>(whole.bytes()));
          device->wait(device->copy_to_host(bytes.data(), whole));
          state.add(kind + parameter.name(), whole.dtype(), parameter.shape(),
                    parameter.declaration().shard, bytes.data());
        }
        // The root's bytes to all data ranks, as a reader would have them.
        const auto all = mesh.data().exchange_values(std::span<const std::byte>(bytes), "test");
        device->fill_zero(part);
        spread.load(index, part, all.data());
      };
      add("master.", spread.weights(index, root), parameter.owned_master());
      add("m.", spread.optimizer_state(index, 0, root), engine.optimizer().states(index)[0]);
      add("v.", spread.optimizer_state(index, 1, root), engine.optimizer().states(index)[1]);
      ++index;
    }
    again.add(engine);
  });
}

TEST(ShardedOptimizerState, ComesTogetherAndComesBack) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Settings serial = settings_of(dtype);
    Settings spread = serial;
    spread.layout = {.tensor = 2, .pipeline = 2, .data = 2};
    spread.zero = 1;
    LogicalState expected, actual, expected_again, actual_again;
    collect(serial, expected, expected_again);
    collect(spread, actual, actual_again);
    EXPECT_TRUE(actual.faults().empty());
    EXPECT_EQ(difference(expected, actual), "");
    EXPECT_TRUE(actual_again.faults().empty());
    EXPECT_EQ(difference(expected_again, actual_again), "");
  }
}

}  // namespace
}  // namespace megalith::engine
