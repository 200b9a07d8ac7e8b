// SPDX-License-Identifier: Apache-2.0
// What is registered comes back from a checkpoint, values before tensors.
#include "checkpoint/state_registry.h"

#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/step_folders.h"
#include "device/device.h"

namespace megalith::checkpoint {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

class StateRegistryTest : public CheckpointTest {
 protected:
  StateRegistry registry() {
    StateRegistry state;
    state.add(StateRegistry::Values{"",
                                    [this] {
                                      return json{{"step", step_}};
                                    },
                                    [this](const json& saved) {
                                      step_ = saved.at("step");
                                      restored_.emplace_back("position");
                                    }});
    state.add(StateRegistry::Values{"guard",
                                    [this] {
                                      return json{{"rewinds", rewinds_}};
                                    },
                                    [this](const json& saved) {
                                      rewinds_ = saved.at("guard").at("rewinds");
                                      restored_.emplace_back("guard");
                                    }});
    state.add(
        StateRegistry::Values{"owed", [] { return json(); },
                              [](const json& saved) { EXPECT_FALSE(saved.contains("owed")); }});
    state.add(StateRegistry::Tensors{[this] {
                                       const ConstView view(
                                           reinterpret_cast<const std::byte*>(values_.data()),
                                           DType::f32, Shape{4});
                                       return std::vector<TensorSource>{{"w", view}};
                                     },
                                     [this](const Reader& reader) {
                                       reader.read("w", Shard::whole(Shape{4}), values_.data());
                                       restored_.emplace_back("w");
                                     }});
    return state;
  }
  int64_t step_ = 3, rewinds_ = 1;
  std::vector<float> values_{1, 2, 3, 4};
  std::vector<std::string> restored_;
};

TEST_F(StateRegistryTest, what_is_registered_comes_back) {
  const StateRegistry state = registry();
  const auto device = device::make_cpu_device(1);
  {
    Saver saver(folder_, {});
    saver.save(*device, 3, state.tensors(), state.values(), {});
    saver.wait();
  }
  step_ = rewinds_ = 0;
  values_.assign(4, 0);
  const auto reader = find_newest(folder_, true);
  ASSERT_TRUE(reader);
  state.restore(*reader);
  EXPECT_EQ(step_, 3);
  EXPECT_EQ(rewinds_, 1);
  EXPECT_THAT(values_, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(restored_, ElementsAre("position", "guard", "w"));
}

TEST_F(StateRegistryTest, a_refused_value_leaves_the_tensors_alone) {
  StateRegistry state = registry();
  const auto device = device::make_cpu_device(1);
  Saver saver(folder_, {});
  saver.save(*device, 3, state.tensors(), state.values(), {});
  saver.wait();
  state.add(StateRegistry::Values{"late", [] { return json(1); },
                                  [](const json&) { throw IntegrityError("no such value"); }});
  values_.assign(4, 0);
  const auto reader = find_newest(folder_, true);
  EXPECT_THROW(state.restore(*reader), IntegrityError);
  EXPECT_THAT(values_, ElementsAre(0, 0, 0, 0));
}

}  // namespace
}  // namespace megalith::checkpoint
