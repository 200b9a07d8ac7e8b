// SPDX-License-Identifier: Apache-2.0
// What products add for rows with adapters, on small whole numbers, whose sums are exact: equal to
// the product with merged weights in double precision. engine/adapter_layout_test.cpp has layouts
// and whole models.
#include "layers/adapter.h"

#include <gtest/gtest.h>

#include "layers/linear.h"
#include "math/random.h"
#include "testing/layer_case.h"

namespace megalith::layers {
namespace {

namespace toys = megalith::testing;

constexpr int64_t kRows = 7, kInputs = 24, kOutputs = 20;

void fill_integers(const View& view, uint64_t seed, int64_t most) {
  for (int64_t row = 0; row < view.size(0); ++row) {
    for (int64_t i = 0; i < view.size(1); ++i) {
      const uint32_t word = philox(seed, static_cast<uint64_t>(row * view.size(1) + i), 0)[0];
      view.row<float>(row)[i] =
          static_cast<float>(static_cast<int64_t>(word % (2 * most + 1)) - most);
    }
  }
}

struct Products {
  Products()
      : settings(toys::toy_settings()),
        c(settings),
        column(c.parameters(), "column", {.inputs = kInputs, .outputs = kOutputs}, c.partition()),
        row(c.parameters(), "row", {.inputs = kInputs, .outputs = kOutputs}, c.partition()) {
    c.place();
    for (const char* name : {"column", "row"}) {
      weight[name] = c.parameters().find(std::string(name) + ".weight");
      fill_integers(weight[name]->mutable_compute(), 1, 3);
      bias[name] = c.parameters().find(std::string(name) + ".bias")->mutable_compute();
      fill_integers(bias[name].reshape(Shape{1, kOutputs}), 2, 3);
    }
    for (uint64_t seed = 0; seed < 2; ++seed) {
      const auto rank = static_cast<int64_t>(3 + 17 * seed);
      adapters.push_back(std::make_unique<Adapter>(
          c.parameters(), c.device(),
          AdapterRanks{{"column.weight", rank}, {"row.weight", rank}, {"elsewhere.weight", 2}}));
      for (auto& [name, factors] : adapters.back()->factors()) {
        fill_integers(factors.a_IR, 10 + seed, 2);
        fill_integers(factors.b_PO, 20 + seed, 2);
      }
    }
    x = c.tensor(Shape{kRows, kInputs});
    fill_integers(x, 5, 3);
    batch.num_tokens = kRows;
  }
  /// y of a row with this adapter, without an activation.
  double expected(const char* name, const Adapter* adapter, int64_t t, int64_t o) const {
    const parameters::Parameter& w = *weight.at(name);
    double sum = 0;
    for (int64_t i = 0; i < kInputs; ++i) {
      double merged = w.compute().view.row<float>(o)[i];
      if (adapter != nullptr) {
        const Adapter::Factors& factors = *adapter->find(w.name());
        for (int64_t r = 0; r < factors.a_IR.view.size(1); ++r)
          merged += static_cast<double>(factors.a_IR.view.row<float>(i)[r]) *
                    factors.b_PO.view.row<float>(r)[o];
      }
      sum += merged * x.view.row<float>(t)[i];
    }
    return sum + bias.at(name).as<float>()[o];
  }

  engine::Settings settings;
  toys::LayerCase c;
  ColumnLinear column;
  RowLinear row;
  std::map<std::string, parameters::Parameter*> weight;
  std::map<std::string, View> bias;
  std::vector<std::unique_ptr<Adapter>> adapters;
  device::Tensor x;
  Batch batch;
};

TEST(Adapter, AddsToTheRowsThatHaveIt) {
  Products p;
  Context context = p.c.context();
  const Adapter *const one = p.adapters[0].get(), *const two = p.adapters[1].get();
  const std::vector<AdapterRun> runs = {{0, 2, one}, {2, 1, nullptr}, {3, 3, two}, {6, 1, one}};
  p.batch.adapters = runs;
  const device::Tensor y = p.c.tensor(Shape{kRows, kOutputs});
  for (const char* name : {"column", "row"}) {
    if (std::string_view(name) == "column")
      p.column.forward(context, p.batch, p.x, y);
    else
      p.row.forward(context, p.batch, p.x, y);
    for (const AdapterRun& run : runs)
      for (int64_t t = run.begin; t < run.begin + run.count; ++t)
        for (int64_t o = 0; o < kOutputs; ++o)
          ASSERT_EQ(y.view.row<float>(t)[o], p.expected(name, run.adapter, t, o))
              << name << " " << t << " " << o;
  }
}

// Of the packed size, before anybody says which columns have which rows.
TEST(Adapter, IsPlannedPackedToo) {
  Products p;
  Adapter packed(p.c.parameters(), p.c.device(), AdapterRanks{{"column.weight", {9, 3}}});
  Adapter::Factors& factors = packed.factors().at("column.weight");
  EXPECT_EQ(factors.a_IR.view.shape(), Shape({kInputs, 9}));
  EXPECT_EQ(factors.b_PO.view.shape(), Shape({3, kOutputs}));
  fill_integers(factors.a_IR, 1, 2);
  fill_integers(factors.b_PO, 2, 2);
  Context context = p.c.context();
  context.adapter = &packed;
  const device::Tensor y = p.c.tensor(Shape{kRows, kOutputs});
  p.column.forward(context, p.batch, p.x, y);
  EXPECT_EQ(packed.factors().at("column.weight").blocks.size(), 1u);
}

TEST(Adapter, OfTheContextIsThatOfAllRows) {
  Products p;
  Context context = p.c.context();
  context.adapter = p.adapters[1].get();
  const device::Tensor y = p.c.tensor(Shape{kRows, kOutputs});
  p.column.forward(context, p.batch, p.x, y);
  for (int64_t t = 0; t < kRows; ++t)
    for (int64_t o = 0; o < kOutputs; ++o)
      ASSERT_EQ(y.view.row<float>(t)[o], p.expected("column", context.adapter, t, o));
}

// The activation is of the sum; of rows without an adapter it has the bits of the fused product.
TEST(Adapter, ComesBeforeTheActivation) {
  Products p;
  Context context = p.c.context();
  const std::vector<AdapterRun> runs = {{0, 3, p.adapters[0].get()}, {3, 4, nullptr}};
  const device::Tensor plain = p.c.tensor(Shape{kRows, kOutputs}),
                       y = p.c.tensor(Shape{kRows, kOutputs});
  p.column.forward(context, p.batch, p.x, plain, kernels::Activation::gelu_tanh);
  p.batch.adapters = runs;
  p.column.forward(context, p.batch, p.x, y, kernels::Activation::relu);
  for (int64_t t = 0; t < 3; ++t)
    for (int64_t o = 0; o < kOutputs; ++o)
      ASSERT_EQ(y.view.row<float>(t)[o],
                std::max(0.0, p.expected("column", p.adapters[0].get(), t, o)));
  p.column.forward(context, p.batch, p.x, y, kernels::Activation::gelu_tanh);
  for (int64_t t = 3; t < kRows; ++t)
    for (int64_t o = 0; o < kOutputs; ++o)
      ASSERT_EQ(y.view.row<float>(t)[o], plain.view.row<float>(t)[o]);
}

// More runs than a call of a kernel takes.
TEST(Adapter, TakesAnyNumberOfRuns) {
  Products p;
  Context context = p.c.context();
  constexpr int64_t kMany = 40;
  const device::Tensor x = p.c.tensor(Shape{kMany, kInputs}),
                       y = p.c.tensor(Shape{kMany, kOutputs});
  std::vector<AdapterRun> runs;
  for (int64_t t = 0; t < kMany; ++t) {
    for (int64_t i = 0; i < kInputs; ++i)
      x.view.row<float>(t)[i] = p.x.view.row<float>(t % kRows)[i];
    runs.push_back({t, 1, p.adapters[static_cast<size_t>(t % 2)].get()});
  }
  p.batch.num_tokens = kMany;
  p.batch.adapters = runs;
  p.row.forward(context, p.batch, x, y);
  for (int64_t t = 0; t < kMany; ++t)
    for (int64_t o = 0; o < kOutputs; ++o)
      ASSERT_EQ(y.view.row<float>(t)[o],
                p.expected("row", runs[static_cast<size_t>(t)].adapter, t % kRows, o))
          << t;
}

}  // namespace
}  // namespace megalith::layers
