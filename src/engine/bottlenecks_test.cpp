// SPDX-License-Identifier: Apache-2.0
// Bottlenecks that train behind a model's products: the weights stay as they were, and what a step
// computes is what an adapter of the same values gives.
#include "engine/state.h"
#include "testing/beside_products.h"

namespace megalith::engine {
namespace {

using testing::OneRank;
using testing::with_bottlenecks;

constexpr double kRate = 0.01;

bool is_of_bottleneck(const std::string& name) {
  return name.find(".adapter_") != std::string::npos;
}

TEST(Bottlenecks, TheWeightsStayAndTheyBeginAsNothing) {
  OneRank rank(with_bottlenecks(testing::toy_llama_settings()));
  const auto before = rank.weights();
  const std::vector<double> losses = rank.train(3, kRate);
  for (const auto& [name, values] : rank.weights()) {
    if (is_of_bottleneck(name)) {
      EXPECT_NE(values, before.at(name)) << name;
    } else {
      EXPECT_EQ(values, before.at(name)) << name;
    }
  }
  EXPECT_EQ(losses[0], OneRank(testing::toy_llama_settings()).train(1, kRate)[0]);
}

TEST(Bottlenecks, AStateHoldsThemAlone) {
  OneRank rank(with_bottlenecks(testing::toy_settings()));
  for (const StateTensor& tensor : state_list(rank.engine))
    EXPECT_TRUE(is_of_bottleneck(tensor.name)) << tensor.name;
}

TEST(Bottlenecks, AreTrainedAsTheyAreServed) {
  Settings narrow = testing::toy_settings();  // with biases
  narrow.weights = narrow.activations = DType::bf16;
  for (Settings settings : {testing::toy_settings(), testing::toy_llama_settings(), narrow}) {
    settings.model.dropout = 0;
    settings.layout = {};
    OneRank trained(with_bottlenecks(settings)), plain(settings);
    trained.train(2, kRate);
    layers::Adapter adapter(plain.engine.parameters(), *plain.device,
                            testing::toy_bottleneck_ranks(settings.model));
    for (auto& [weight, factors] : adapter.factors()) {
      const auto names = bottlenecks::parameters_behind(weight);
      const View views[] = {factors.down_RH, factors.down_bias_R, factors.up_HR, factors.up_bias_H};
      for (size_t i = 0; i < names.size(); ++i)
        plain.device->copy(views[i], trained.engine.parameters().find(names[i])->compute());
    }
    testing::expect_served_as_trained(trained, plain, adapter);
  }
}

}  // namespace
}  // namespace megalith::engine
