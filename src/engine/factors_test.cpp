// SPDX-License-Identifier: Apache-2.0
// Low-rank factors that train beside a model's products, with and without magnitudes of outputs:
// the weights stay as they were, and what a step computes is what an adapter of the same values
// gives.
#include <optional>
#include <utility>

#include "engine/state.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/matmul/low_rank_blocks.h"
#include "low_rank/adapter_scale.h"
#include "low_rank/factor_columns.h"
#include "low_rank/magnitudes.h"
#include "testing/beside_products.h"

namespace megalith::engine {
namespace {

using testing::expect_served_as_trained;
using testing::OneRank;
using testing::with_factors;
using testing::with_magnitudes;

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

/// With magnitudes that are the norms of the weights.
void begin(OneRank& rank) {
  kernels::Exec exec(*rank.device);
  low_rank::begin_magnitudes(exec, rank.mesh.tensor(), rank.engine.parameters());
}

TEST(Factors, OfMagnitudesBeginAsTheModelAndMoveAllThree) {
  for (const Settings& settings : {testing::toy_settings(), testing::toy_llama_settings()}) {
    OneRank rank(with_magnitudes(settings));
    begin(rank);
    const auto before = rank.weights();
    const std::vector<double> losses = rank.train(3, kRate);
    for (const auto& [name, values] : rank.weights()) {
      if (low_rank::is_factor(name)) {
        EXPECT_NE(values, before.at(name)) << name;
      } else {
        EXPECT_EQ(values, before.at(name)) << name;
      }
    }
    EXPECT_EQ(losses[0], OneRank(settings).train(1, kRate)[0]);
    // Keys have no module: their magnitudes stay.
    const auto products = testing::toy_factors(rank.settings.model);
    const auto& by_output = products->products.at("layers.0.attention.qkv.weight").by_output;
    const std::string name = "layers.0.attention.qkv.lora_m";
    const std::vector<float> behind = rank.weights().at(name);
    for (size_t o = 0; o < by_output.size(); ++o)
      EXPECT_EQ(behind[o] == before.at(name)[o], by_output[o].empty()) << o;
  }
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

/// Whatever the type of the weights, and whether all of it trains.
TEST(Factors, AHeadOfClassesHasTheMastersType) {
  Settings settings = testing::toy_sequence_settings(layers::HeadKind::sequence_classification);
  settings.trains_head = true;
  settings.weights = settings.activations = DType::bf16;
  settings.frozen = {"head.dense.*"};
  OneRank rank(with_factors(settings));
  rank.train(1, kRate);
  size_t of_head = 0;
  for (const parameters::Parameter& parameter : rank.engine.parameters().all()) {
    const bool is_of_head = parameter.name().starts_with("head.");
    of_head += is_of_head ? 1 : 0;
    const bool is_wide = is_of_head || low_rank::is_factor(parameter.name());
    EXPECT_EQ(parameter.compute().format, is_wide ? Format::f32 : Format::bf16) << parameter.name();
    EXPECT_EQ(parameter.trainable(), is_wide && !parameter.name().starts_with("head.dense."))
        << parameter.name();
  }
  EXPECT_EQ(of_head, 4u);
  // All that an adapter is written from: what stays as well.
  size_t saved = 0;
  for (const StateTensor& tensor : state_list(rank.engine)) {
    EXPECT_EQ(tensor.dtype, DType::f32) << tensor.name;
    saved += tensor.name.starts_with("head.") ? 1 : 0;
  }
  EXPECT_EQ(saved, 4u);
}

/// An adapter beside `plain` of the values that the factors of `trained` have.
layers::Adapter adapter_of(OneRank& trained, OneRank& plain, bool magnitudes) {
  const auto products = testing::toy_factors(plain.settings.model);
  layers::AdapterRanks ranks;
  for (const auto& [weight, product] : products->products)
    ranks.emplace(
        weight,
        layers::AdapterRank(
            product.rank, kernels::packed_rank(kernels::blocks_of(product.by_output)), magnitudes));
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
    const auto& by_output = products->products.at(weight).by_output;
    factors.blocks = kernels::blocks_of(by_output);
    if (!magnitudes) continue;
    const auto on_host = [&](ConstView values) {
      std::vector<float> host(static_cast<size_t>(values.num_elements()));
      plain.device->wait(plain.device->copy_to_host(host.data(), values));
      return host;
    };
    const device::Tensor b_RO = exec.workspace.tensor(
        DType::f32, Shape{a_RI.size(0), static_cast<int64_t>(by_output.size())});
    low_rank::spread_columns(exec, factors.b_PO, b_RO, low_rank::column_runs(by_output));
    std::vector<std::optional<float>> m_O;
    const std::vector<float> m = on_host(view(low_rank::magnitudes_of(weight)));
    for (size_t o = 0; o < m.size(); ++o)
      m_O.push_back(by_output[o].empty() ? std::nullopt : std::optional(m[o]));
    low_rank::set_scale(exec, plain.mesh.tensor(), *plain.engine.parameters().find(weight),
                        {.a_RI = on_host(a_RI), .b_RO = on_host(b_RO), .m_O = std::move(m_O)},
                        adapter);
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
    layers::Adapter adapter = adapter_of(trained, plain, false);
    expect_served_as_trained(trained, plain, adapter);
  }
}

TEST(Factors, WithMagnitudesAreTrainedAsTheyAreServed) {
  Settings narrow = testing::toy_settings();  // with biases
  narrow.weights = narrow.activations = DType::bf16;
  for (Settings settings : {testing::toy_settings(), testing::toy_llama_settings(), narrow}) {
    settings.model.dropout = 0;
    settings.layout = {};
    OneRank trained(with_magnitudes(settings)), plain(settings);
    begin(trained);
    trained.train(2, kRate);
    layers::Adapter adapter = adapter_of(trained, plain, true);
    expect_served_as_trained(trained, plain, adapter);
  }
}

}  // namespace
}  // namespace megalith::engine
