// SPDX-License-Identifier: Apache-2.0
// Low-rank factors that train beside a model's products: the weights stay as they were, and what a
// step computes is what an adapter of the same values gives.
#include "engine/state.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/matmul/low_rank_blocks.h"
#include "low_rank/factor_columns.h"
#include "testing/beside_products.h"

namespace megalith::engine {
namespace {

using testing::expect_served_as_trained;
using testing::OneRank;
using testing::with_factors;

constexpr double kRate = 0.01;

TEST(Factors, TheWeightsStayAndOnlyModulesMove) {
  OneRank rank(with_factors(testing::toy_llama_settings()));
  const auto before = rank.weights();
  const std::vector<double> losses = rank.train(3, kRate);
  const auto behind = rank.weights();
  for (const auto& [name, values] : behind) {
    if (low_rank::is_factor(name)) {
      EXPECT_NE(values, before.at(name)) << name;
    } else {
      EXPECT_EQ(values, before.at(name)) << name;
    }
  }
  // Keys have no module: their columns of the second factor stay zero.
  const auto products = testing::toy_factors(rank.settings.model);
  const auto& ranks = products->products.at("layers.0.attention.qkv.weight");
  const std::vector<float>& b_PO = behind.at("layers.0.attention.qkv.lora_b");
  const size_t outputs = ranks.by_output.size();
  for (size_t o = 0; o < outputs; ++o)
    for (size_t r = 0; r < b_PO.size() / outputs; ++r)
      EXPECT_EQ(b_PO[r * outputs + o] == 0, ranks.by_output[o].empty()) << o;
  // They begin as the model without them.
  EXPECT_EQ(losses[0], OneRank(testing::toy_llama_settings()).train(1, kRate)[0]);
}

TEST(Factors, AStateHoldsThemAlone) {
  OneRank rank(with_factors(testing::toy_settings()));
  for (const StateTensor& tensor : state_list(rank.engine))
    EXPECT_TRUE(low_rank::is_factor(tensor.name)) << tensor.name;
  EXPECT_EQ(state_list(rank.engine).size(),
            3 * 2 * testing::toy_adapter_ranks(rank.settings.model).size());
}

TEST(Factors, AHeadOfClassesTrainsWithThem) {
  Settings settings = testing::toy_sequence_settings(layers::HeadKind::sequence_classification);
  settings.trains_head = true;
  OneRank rank(with_factors(settings));
  const auto is_trained = [](const std::string& name) {
    return low_rank::is_factor(name) || name.starts_with("head.");
  };
  const auto before = rank.weights();
  rank.train(3, kRate);
  for (const auto& [name, values] : rank.weights())
    EXPECT_EQ(values != before.at(name), is_trained(name)) << name;
  size_t of_head = 0;
  for (const StateTensor& tensor : state_list(rank.engine)) {
    EXPECT_TRUE(is_trained(tensor.name) || tensor.optimizer) << tensor.name;
    of_head += tensor.name.starts_with("head.") ? 1 : 0;
  }
  EXPECT_EQ(of_head, 4u);  // a dense layer and the outputs
}

/// An adapter beside `plain` of the values that the factors of `trained` have.
layers::Adapter adapter_of(OneRank& trained, OneRank& plain) {
  const auto products = testing::toy_factors(plain.settings.model);
  layers::AdapterRanks ranks;
  for (const auto& [weight, product] : products->products)
    ranks.emplace(weight,
                  layers::AdapterRank(product.rank,
                                      kernels::packed_rank(kernels::blocks_of(product.by_output))));
  layers::Adapter adapter(plain.engine.parameters(), *plain.device, ranks);
  for (auto& [weight, factors] : adapter.factors()) {
    const auto view = [&](const std::string& name) {
      return ConstView(trained.engine.parameters().find(name)->compute());
    };
    const ConstView a_RI = view(low_rank::first_factor(weight));
    for (int64_t r = 0; r < a_RI.size(0); ++r)
      plain.device->copy(factors.a_IR.view.columns(r, 1),
                         a_RI.rows(r, 1).reshape(Shape{a_RI.size(1), 1}));
    plain.device->copy(factors.b_PO, view(low_rank::second_factor(weight)));
    kernels::Exec exec(*plain.device);
    kernels::scale(exec, factors.b_PO, static_cast<float>(products->scale));
    factors.blocks = kernels::blocks_of(products->products.at(weight).by_output);
  }
  return adapter;
}

/// The losses of a step are those of the weights with the adapter of the same values beside them
/// (layers/adapter.h), to the bit.
TEST(Factors, AreTrainedAsTheyAreServed) {
  for (Settings settings : {testing::toy_settings(), testing::toy_llama_settings()}) {
    settings.model.dropout = 0;
    settings.layout = {};
    OneRank trained(with_factors(settings)), plain(settings);
    trained.train(2, kRate);
    layers::Adapter adapter = adapter_of(trained, plain);
    expect_served_as_trained(trained, plain, adapter);
  }
}

}  // namespace
}  // namespace megalith::engine
