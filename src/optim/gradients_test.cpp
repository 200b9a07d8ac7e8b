// SPDX-License-Identifier: Apache-2.0
#include "optim/gradients.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "comm/backends.h"

namespace megalith::optim {
namespace {

using parameters::Declaration;
using parameters::Init;

/// One rank; a tied table with two buffers, a bias with four partial rows, a matrix cut in two.
class Gradients : public ::testing::Test {
 protected:
  void SetUp() override {
    const Shape table{4, 2}, bias{3}, matrix{2, 6};
    Declaration tied{"table", table, Shard::whole(table), Init{}, 4};
    tied.num_gradients = 2;
    table_ = &set_.declare(tied);
    Declaration partials{"bias", bias, Shard::whole(bias), Init{}};
    partials.gradient_partials = 4;
    bias_ = &set_.declare(partials);
    matrix_ = &set_.declare({"matrix", matrix, Shard::part(matrix, 1, 0, 1), Init{}, 2});
    set_.allocate(*device_, {DType::f32, DType::f32, true, 1});
    set_.initialise(*device_, 1);
    set_.zero_gradient_sums(*device_, 0);
    for (int which = 0; which < 2; ++which)
      fill(table_->gradient_sum(which), which == 0 ? 1.0f : 100.0f);
    fill(bias_->gradient_sum(), 1);
    fill(matrix_->gradient_sum(), 1);
  }
  /// scale * (1, 2, 3, ...)
  static void fill(View view, float scale) {
    for (int64_t i = 0; i < view.num_elements(); ++i)
      view.as<float>()[i] = scale * static_cast<float>(i + 1);
  }

  std::unique_ptr<device::Device> device_ = device::make_cpu_device(1);
  std::unique_ptr<comm::Communicator> alone_ = comm::make_self_communicator(*device_);
  parallel::Mesh mesh_{*alone_, parallel::Layout{}};
  kernels::Exec exec_{*device_};
  parameters::ParameterSet set_;
  parameters::Parameter *table_ = nullptr, *bias_ = nullptr, *matrix_ = nullptr;
};

TEST_F(Gradients, SidesOfATiedTableAndPartialRowsAreAddedOnce) {
  combine_gradients(exec_, mesh_, set_, table_);
  for (int64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(table_->gradient().as<float>()[i], 101 * static_cast<float>(i + 1));
  }
  // Rows (1 2 3) (4 5 6) (7 8 9) (10 11 12).
  const float* sums = bias_->gradient().as<float>();
  EXPECT_EQ(sums[0], 22);
  EXPECT_EQ(sums[1], 26);
  EXPECT_EQ(sums[2], 30);
  for (int64_t i = 0; i < 12; ++i)
    EXPECT_EQ(matrix_->gradient().as<float>()[i], static_cast<float>(i + 1));
}

TEST_F(Gradients, NormCountsEveryLogicalElementOnce) {
  combine_gradients(exec_, mesh_, set_, table_);
  const NormOrder order(set_);
  EXPECT_EQ(order.size(), 4 + 1 + 2);
  // Integers below 2^53: the sum of squares is exact in any order.
  const double squares = 101.0 * 101 * 204 + (22 * 22 + 26 * 26 + 30 * 30) + 650;
  for (const double clip : {1.0, 1e6, std::numeric_limits<double>::infinity()}) {
    const GradientNorm norm = gradient_norm(exec_, mesh_, set_, order, clip);
    EXPECT_EQ(*norm.norm.view.as<double>(), std::sqrt(squares));
    const double factor = std::min(1.0, clip / (std::sqrt(squares) + 1e-6));
    EXPECT_EQ(*norm.factor.view.as<float>(), static_cast<float>(factor)) << clip;
  }
}

TEST_F(Gradients, NotANumberReachesTheNorm) {
  matrix_->gradient_sum().as<float>()[7] = std::nanf("");
  combine_gradients(exec_, mesh_, set_, table_);
  const GradientNorm norm = gradient_norm(exec_, mesh_, set_, NormOrder(set_), 1.0);
  EXPECT_TRUE(std::isnan(*norm.norm.view.as<double>()));
}

}  // namespace
}  // namespace megalith::optim
