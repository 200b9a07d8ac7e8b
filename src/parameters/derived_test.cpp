// SPDX-License-Identifier: Apache-2.0
#include "parameters/derivation.h"

#include <gtest/gtest.h>

#include <span>

#include "base/error.h"
#include "kernels/elementwise/pointwise.h"
#include "parameters/parameter_set.h"

namespace megalith::parameters {
namespace {

const Shape kShape{2, 3};

Declaration declared(const std::string& name, bool is_derived = false) {
  Declaration declaration{name, kShape, Shard::whole(kShape), Init{Init::Kind::normal, 1}};
  declaration.format = Format::f32;
  declaration.is_derived = is_derived;
  return declaration;
}

/// sum = a + 2 b, and how often it was made.
class Sum final : public Derivation {
 public:
  Sum(Parameter& a, Parameter& b, Parameter& sum) : a_(a), b_(b), sum_(sum) {}
  void forward(kernels::Exec& exec) const override {
    ++made;
    const View sum = sum_.mutable_compute();
    kernels::add(exec, b_.compute(), b_.compute(), sum);
    kernels::add(exec, sum, a_.compute(), sum);
  }
  void backward(kernels::Exec& exec) const override {
    const View da = a_.gradient_sum(), db = b_.gradient_sum(), d = sum_.gradient_sum();
    kernels::add(exec, da, d, da);
    for (int i = 0; i < 2; ++i) kernels::add(exec, db, d, db);
  }
  mutable int made = 0;

 private:
  Parameter &a_, &b_, &sum_;
};

class Derived : public ::testing::Test {
 protected:
  Derived() : set_([](Declaration& declaration) { declaration.trainable = true; }) {
    set_.declare(declared("before"));
    Parameter &a = set_.declare(declared("a")), &b = set_.declare(declared("b"));
    sum_ = std::make_shared<const Sum>(a, b, set_.declare(declared("sum", true)));
    set_.add_derived(1, sum_);
    set_.declare(declared("behind"));
  }
  void place(const Storage& storage) {
    set_.allocate(*device_, storage);
    set_.initialise(*device_, 7);
  }
  float at(const char* name, int64_t i) { return set_.find(name)->compute().view.as<float>()[i]; }
  static void fill(const View& view, float value) {
    for (int64_t i = 0; i < view.num_elements(); ++i)
      view.as<float>()[i] = value * static_cast<float>(i + 1);
  }

  std::unique_ptr<device::Device> device_ = device::make_cpu_device(1);
  kernels::Exec exec_{*device_};
  ParameterSet set_;
  std::shared_ptr<const Sum> sum_;
};

TEST_F(Derived, HasAValueAndSumsAndNothingElse) {
  place({.compute = DType::bf16, .owner = 1, .owners = 2});
  const Parameter& sum = *set_.find("sum");
  EXPECT_FALSE(sum.trainable());  // whatever a rule says
  EXPECT_TRUE(sum.has_gradient());
  EXPECT_EQ(sum.owned().count, 0);
  EXPECT_TRUE(sum.compute_is_master());
  EXPECT_TRUE(sum.gradient().absent());
  EXPECT_EQ(sum.gradient_sum().shape(), kShape);
  EXPECT_EQ(set_.gradient_begin(4) - set_.gradient_begin(3), 64);
}

TEST_F(Derived, IsMadeWhenTheOthersHaveChanged) {
  place({});
  set_.derive(exec_);
  for (int64_t i = 0; i < 6; ++i) EXPECT_FLOAT_EQ(at("sum", i), at("a", i) + 2 * at("b", i)) << i;
  set_.derive(exec_);
  EXPECT_EQ(sum_->made, 1);
  set_.find("before")->mark_changed();
  set_.find("behind")->mark_changed();
  set_.derive(exec_);
  EXPECT_EQ(sum_->made, 1);
  const uint64_t version = set_.find("sum")->version();
  fill(set_.find("b")->mutable_compute(), 1);
  set_.find("b")->mark_changed();
  set_.derive(exec_);
  EXPECT_EQ(sum_->made, 2);
  EXPECT_GT(set_.find("sum")->version(), version);
  for (int64_t i = 0; i < 6; ++i)
    EXPECT_FLOAT_EQ(at("sum", i), at("a", i) + 2 * static_cast<float>(i + 1)) << i;
}

TEST_F(Derived, PassesItsGradientOnInTheLevelThatIsSelected) {
  place({DType::f32, DType::f32, true, 2});
  for (const int level : {0, 1}) set_.zero_gradient_sums(*device_, level);
  set_.select_level(1);
  fill(set_.find("sum")->gradient_sum(), 1);
  fill(set_.find("b")->gradient_sum(), 10);
  set_.backward_derived(exec_);
  for (int64_t i = 0; i < 6; ++i) {
    const auto one = static_cast<float>(i + 1);
    EXPECT_EQ(set_.find("a")->gradient_sum().as<float>()[i], one);
    EXPECT_EQ(set_.find("b")->gradient_sum().as<float>()[i], 12 * one);
    EXPECT_EQ(set_.find("before")->gradient_sum().as<float>()[i], 0);
  }
  for (const float sum : std::span(set_.flat_gradient_sums(0).as<float>(), 64)) EXPECT_EQ(sum, 0);
}

TEST_F(Derived, IsCompleteWithTheOthersWhenBackwardIs) {
  EXPECT_EQ(set_.complete_last(), 4u);
  EXPECT_EQ(ParameterSet().complete_last(), 0u);
}

TEST_F(Derived, FollowsFromSomething) {
  EXPECT_THROW(set_.add_derived(0, sum_), InternalError);  // the last one does not follow
  set_.declare(declared("more", true));
  EXPECT_THROW(set_.add_derived(5, sum_), InternalError);
}

}  // namespace
}  // namespace megalith::parameters
