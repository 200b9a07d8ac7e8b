// SPDX-License-Identifier: Apache-2.0
// Learned vectors that train beside a model's products: the weights stay as they were, and what a
// step computes is what an adapter of the same values gives.
#include "engine/state.h"
#include "testing/beside_products.h"

namespace megalith::engine {
namespace {

using testing::expect_served_as_trained;
using testing::kVectorRate;
using testing::OneRank;
using testing::with_vectors;

bool is_vector(const std::string& name) { return name.ends_with(".ia3_l"); }

TEST(Ia3, TheWeightsStayAndOnlyModulesMoveFromOne) {
  OneRank rank(with_vectors(testing::toy_llama_settings()));
  const auto products = testing::toy_vectors(rank.settings.model);
  const auto before = rank.weights();
  const std::vector<double> losses = rank.train(3, kVectorRate);
  size_t moved = 0;
  for (const auto& [name, values] : rank.weights()) {
    if (!is_vector(name)) {
      EXPECT_EQ(values, before.at(name)) << name;
      continue;
    }
    const std::string weight = name.substr(0, name.rfind('.')) + ".weight";
    const std::vector<bool>& outputs = products->at(weight).outputs;
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(before.at(name)[i], 1) << name;
      EXPECT_EQ(values[i] != 1, outputs.empty() || outputs[i]) << name << " " << i;
      moved += values[i] != 1 ? 1 : 0;
    }
  }
  EXPECT_GT(moved, 100u);
  // They begin as the model without them.
  EXPECT_EQ(losses[0], OneRank(testing::toy_llama_settings()).train(1, kVectorRate)[0]);
}

TEST(Ia3, AStateHoldsThemAlone) {
  OneRank rank(with_vectors(testing::toy_settings()));
  for (const StateTensor& tensor : state_list(rank.engine))
    EXPECT_NE(tensor.name.find(".ia3_l"), std::string::npos) << tensor.name;
  EXPECT_EQ(state_list(rank.engine).size(), 3 * testing::toy_vectors(rank.settings.model)->size());
}

/// The losses of a step are those of the weights with the adapter of the same values beside them
/// (layers/adapter.h), to the bit.
TEST(Ia3, AreTrainedAsTheyAreServed) {
  for (Settings settings : {testing::toy_settings(), testing::toy_llama_settings()}) {
    settings.model.dropout = 0;
    settings.layout = {};
    OneRank trained(with_vectors(settings)), plain(settings);
    trained.train(2, kVectorRate);
    layers::Adapter adapter(plain.engine.parameters(), *plain.device,
                            testing::toy_vector_ranks(settings.model));
    for (auto& [weight, factors] : adapter.factors()) {
      const ConstView l = trained.engine.parameters().find(ia3::vector_beside(weight))->compute();
      plain.device->copy(factors.input_I.view.absent() ? factors.output_O : factors.input_I, l);
    }
    expect_served_as_trained(trained, plain, adapter);
  }
}

}  // namespace
}  // namespace megalith::engine
