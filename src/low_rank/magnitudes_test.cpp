// SPDX-License-Identifier: Apache-2.0
// Products whose factors have magnitudes, against the formula in double precision and against
// factors without them: what n is divides, so values are theirs times g, and gradients those of
// theirs for dy g, since n is a constant to them. engine/ has whole models, under layouts.
#include "low_rank/magnitudes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "layers/linear.h"
#include "testing/layer_case.h"

namespace megalith::low_rank {
namespace {

using layers::ColumnLinear;
using layers::Context;
using layers::RowLinear;
using megalith::testing::LayerCase;

constexpr int64_t kH = 16, kF = 24, kRank = 3;
constexpr double kScale = 1.5;
/// Sums of 24 numbers up to some tens, in f32.
constexpr double kBound = 1e-4;

/// Modules of 8 outputs side by side, of which the second has no factors.
ProductRanks ranks_of(int64_t outputs) {
  ProductRanks ranks{{}, 2 * kRank};
  for (int64_t o = 0; o < outputs; ++o) {
    const Range second = o < 16 ? Range{} : Range{kRank, 2 * kRank};
    ranks.by_output.push_back(o < 8 ? Range{0, kRank} : second);
  }
  return ranks;
}

engine::Settings with_factors(bool magnitudes) {
  engine::Settings settings = megalith::testing::tiny_f64_settings();
  settings.masters = settings.weights = settings.activations = DType::f32;
  auto products = std::make_shared<FactoredProducts>();
  products->products = {{"up.weight", ranks_of(kF)}, {"down.weight", ranks_of(kH)}};
  products->scale = kScale;
  products->has_magnitudes = magnitudes;
  settings.factors = factors_of(std::move(products), settings.masters);
  return settings;
}

View master(LayerCase& c, const std::string& name) { return c.parameters().find(name)->master(); }

/// The gradient of a parameter of this many elements: partial rows are summed.
std::vector<double> gradient(LayerCase& c, const std::string& name, int64_t count) {
  const View partials = c.parameters().find(name)->gradient_sum();
  std::vector<double> sum(static_cast<size_t>(count));
  for (int64_t i = 0; i < partials.num_elements(); ++i)
    sum[static_cast<size_t>(i % count)] += static_cast<double>(partials.as<float>()[i]);
  return sum;
}

/// n by output: || w + s b a ||; 0 for outputs of no module.
std::vector<double> norms(LayerCase& c, const std::string& name, int64_t inputs, int64_t outputs) {
  const ProductRanks ranks = ranks_of(outputs);
  const View w = master(c, name + ".weight"), a = master(c, name + ".lora_a"),
             b = master(c, name + ".lora_b");
  std::vector<double> n(static_cast<size_t>(outputs));
  for (int64_t o = 0; o < outputs; ++o) {
    const Range own = ranks.by_output[static_cast<size_t>(o)];
    if (own.empty()) continue;
    double squares = 0;
    for (int64_t i = 0; i < inputs; ++i) {
      double element = static_cast<double>(w.row<float>(o)[i]);
      for (int64_t r = 0; r < kRank; ++r)
        element += kScale * static_cast<double>(b.row<float>(r)[o]) *
                   static_cast<double>(a.row<float>(own.begin + r)[i]);
      squares += element * element;
    }
    n[static_cast<size_t>(o)] = std::sqrt(squares);
  }
  return n;
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b,
                 const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i], b[i], kBound * std::max(1.0, std::abs(b[i]))) << what << " " << i;
}

template <class Linear>
void check(const std::string& name, int64_t inputs, int64_t outputs, bool bias) {
  const layers::LinearConfig config{inputs, outputs, bias};
  LayerCase c(with_factors(true)), plain(with_factors(false));
  const Linear layer(c.parameters(), name, config, c.partition()),
      other(plain.parameters(), name, config, plain.partition());
  c.place();
  plain.place();
  Context context = c.context(), beside = plain.context();
  const Shape wide{c.tokens(), outputs};
  const auto x = c.random(Shape{c.tokens(), inputs}, "x"), dx = c.tensor(x.view.shape());
  const auto y = c.tensor(wide), dy = c.random(wide, "dy");
  const auto without = plain.tensor(wide), scaled = plain.random(wide, "dy"),
             dx_beside = plain.tensor(x.view.shape());
  const std::vector<double> n = norms(c, name, inputs, outputs);

  layer.forward(context, c.batch(), x, y);
  other.forward(beside, plain.batch(), x, without);
  std::vector<double> dm(static_cast<size_t>(outputs));
  for (int64_t o = 0; o < outputs; ++o) {
    const auto at = static_cast<size_t>(o);
    const bool is_of_module = n[at] > 0;
    const double m = static_cast<double>(master(c, name + ".lora_m").as<float>()[o]);
    const double g = is_of_module ? m / n[at] : 1;
    const double b = bias ? static_cast<double>(master(c, name + ".bias").as<float>()[o]) : 0;
    for (int64_t t = 0; t < c.tokens(); ++t) {
      const double z = static_cast<double>(without.view.row<float>(t)[o]) - b;
      EXPECT_NEAR(static_cast<double>(y.view.row<float>(t)[o]), z * g + b,
                  kBound * std::max(1.0, std::abs(z * g)))
          << name << bias << " " << t << " " << o;
      const double dy_to = static_cast<double>(dy.view.row<float>(t)[o]);
      if (is_of_module) dm[at] += dy_to * z / n[at];
      scaled.view.row<float>(t)[o] = static_cast<float>(dy_to * g);
    }
  }
  layer.backward(context, c.batch(), dy, x, dx);
  other.backward(beside, plain.batch(), scaled, x, dx_beside);
  for (const char* const end : {".lora_a", ".lora_b"}) {
    const int64_t count = master(c, name + end).num_elements();
    expect_near(gradient(c, name + end, count), gradient(plain, name + end, count), name + end);
  }
  expect_near(gradient(c, name + ".lora_m", outputs), dm, name + ".lora_m");
  for (int64_t o = 8; o < 16; ++o)
    EXPECT_EQ(gradient(c, name + ".lora_m", outputs)[static_cast<size_t>(o)], 0) << o;
  for (int64_t i = 0; i < x.view.num_elements(); ++i)
    EXPECT_NEAR(dx.view.as<float>()[i], dx_beside.view.as<float>()[i], kBound * 10) << name << i;
}

TEST(Magnitudes, AreTheFormulaAndItsGradients) {
  for (const bool bias : {true, false}) {
    check<ColumnLinear>("up", kH, kF, bias);
    check<RowLinear>("down", kF, kH, bias);
  }
}

TEST(Magnitudes, BeginAsNormsOfTheWeights) {
  LayerCase c(with_factors(true));
  const ColumnLinear up(c.parameters(), "up", {kH, kF, false}, c.partition());
  const RowLinear down(c.parameters(), "down", {kF, kH, false}, c.partition());
  c.place();
  kernels::Exec exec(c.device());
  begin_magnitudes(exec, c.ranks(), c.parameters());
  for (const char* const which : {"up", "down"}) {
    const std::string name = which;
    const View w = master(c, name + ".weight"), m = master(c, name + ".lora_m");
    for (int64_t o = 0; o < w.size(0); ++o) {
      double squares = 0;
      for (int64_t i = 0; i < w.size(1); ++i) {
        const double element = static_cast<double>(w.row<float>(o)[i]);
        squares += element * element;
      }
      const double norm = std::sqrt(squares);
      // Roundings of the shards' sums, of their tree and of the root.
      EXPECT_NEAR(static_cast<double>(m.as<float>()[o]), norm, 8 * 0x1p-24 * norm) << name << o;
    }
  }
}

}  // namespace
}  // namespace megalith::low_rank
