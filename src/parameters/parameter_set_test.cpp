// SPDX-License-Identifier: Apache-2.0
#include "parameters/parameter_set.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <set>
#include <tuple>

#include "math/random.h"
#include "parameters/ownership.h"
#include "tensor/blocks.h"

namespace megalith::parameters {
namespace {

Declaration matrix(const std::string& name, const Shape& shape, const Shard& shard,
                   int64_t zero_rows_from = -1) {
  return {name, shape, shard, Init{Init::Kind::normal, 0.02, zero_rows_from}};
}

std::vector<float> values(const Declaration& declaration, uint64_t seed = 5) {
  const Parameter parameter(declaration);
  std::vector<float> host(static_cast<size_t>(parameter.local_elements()));
  initial_value(parameter, seed, DType::f32, host.data());
  return host;
}

TEST(ParameterSet, NamesAreUniqueAndFound) {
  ParameterSet set;
  const Shape shape{2, 3};
  Parameter& a = set.declare(matrix("a", shape, Shard::whole(shape)));
  set.declare(matrix("b", shape, Shard::part(shape, 0, 1, 2)));
  EXPECT_EQ(set.find("a"), &a);
  EXPECT_EQ(set.find("c"), nullptr);
  EXPECT_EQ(set.local_elements(), 9);
  EXPECT_EQ(set.global_elements(), 12);
  EXPECT_THROW(set.declare(matrix("a", shape, Shard::whole(shape))), InternalError);
}

TEST(InitialValue, TwoRangesEqualTheWhole) {
  const Shape shape{8, 12};
  const std::vector<float> whole = values(matrix("w", shape, Shard::whole(shape)));
  const std::vector<float> local = values(matrix("w", shape, Shard{0, 2, 2, 6, 1}));
  std::vector<float> expected(whole.begin() + 24, whole.begin() + 48);
  expected.insert(expected.end(), whole.begin() + 72, whole.begin() + 84);
  EXPECT_EQ(local, expected);
}

/// Shards along either dimension hold the whole's numbers, with every way of cutting it.
TEST(InitialValue, ShardsEqualTheWhole) {
  const Shape shape{8, 12};
  const std::vector<float> whole = values(matrix("w", shape, Shard::whole(shape)));
  for (const int dim : {0, 1}) {
    for (const int parts : {1, 2, 4}) {
      for (int part = 0; part < parts; ++part) {
        const Shard shard = Shard::part(shape, dim, part, parts);
        const std::vector<float> local = values(matrix("w", shape, shard));
        const Shape local_shape = shard.local_shape(shape);
        size_t at = 0;
        for (int64_t r = 0; r < local_shape[0]; ++r) {
          for (int64_t c = 0; c < local_shape[1]; ++c, ++at) {
            const int64_t row = r + (dim == 0 ? shard.begin : 0),
                          column = c + (dim == 1 ? shard.begin : 0);
            ASSERT_EQ(local[at], whole[static_cast<size_t>(row * 12 + column)])
                << dim << parts << part << at;
          }
        }
      }
    }
  }
}

TEST(InitialValue, IsTheKeyedNormalTimesTheDeviationRoundedOnce) {
  const Shape shape{4, 4};
  const std::vector<float> w = values(matrix("name", shape, Shard::whole(shape)), 9);
  for (size_t i = 0; i < w.size(); ++i) {
    EXPECT_EQ(w[i], static_cast<float>(0.02 * normal(random_key(9, "name"), i)));
  }
}

TEST(InitialValue, AConstantIsItsValueInF32) {
  const Shape shape{3};
  const Declaration constant{
      "s", shape, Shard::whole(shape), {.kind = Init::Kind::constant, .value = 0.1}};
  EXPECT_EQ(values(constant), (std::vector<float>{0.1f, 0.1f, 0.1f}));
}

TEST(InitialValue, SeedAndNameMatter) {
  const Shape shape{4, 4};
  const auto base = values(matrix("w", shape, Shard::whole(shape)), 1);
  EXPECT_NE(base, values(matrix("w", shape, Shard::whole(shape)), 2));
  EXPECT_NE(base, values(matrix("v", shape, Shard::whole(shape)), 1));
}

TEST(InitialValue, PaddingRowsAreZeroInEveryShard) {
  const Shape shape{8, 3};
  for (int part = 0; part < 4; ++part) {
    const auto local = values(matrix("w", shape, Shard::part(shape, 0, part, 4), 5));
    for (size_t i = 0; i < local.size(); ++i) {
      const int64_t row = part * 2 + static_cast<int64_t>(i) / 3;
      EXPECT_EQ(local[i] == 0, row >= 5) << part << " " << i;
    }
  }
}

TEST(InitialValue, TheDeviationIsTheOneAskedFor) {
  const Shape shape{256, 256};
  double sum = 0, squares = 0;
  for (const float x : values(matrix("w", shape, Shard::whole(shape)))) {
    sum += x;
    squares += static_cast<double>(x) * x;
  }
  const double n = 65536;
  // Five standard errors: 0.02 / sqrt(n) of the mean, 0.02 / sqrt(2 n) of the deviation.
  EXPECT_NEAR(sum / n, 0, 5 * 0.02 / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(squares / n), 0.02, 5 * 0.02 / std::sqrt(2 * n));
}

class Placed : public ::testing::Test {
 protected:
  void place(const Storage& storage) {
    const Shape weight{6, 10}, bias{10};
    set_.declare({"weight", weight, Shard::whole(weight), Init{Init::Kind::normal, 1}, 2});
    Declaration partials{"bias", bias, Shard::whole(bias), Init{Init::Kind::ones}};
    partials.gradient_partials = 4;
    set_.declare(partials);
    Declaration tied{"tied", weight, Shard::part(weight, 0, 1, 2), Init{Init::Kind::normal, 1}, 6};
    tied.num_gradients = 2;
    set_.declare(tied);
    set_.allocate(*device_, storage);
    set_.initialise(*device_, 3);
  }
  int64_t bytes_in(device::MemoryClass memory_class) const {
    return device_->arena(memory_class).in_use();
  }
  std::unique_ptr<device::Device> device_ = device::make_cpu_device(1);
  std::string declare_frozen_;  // in f32
  ParameterSet set_{[this](Declaration& declaration) {
    if (declaration.name != declare_frozen_) return;
    declaration.trainable = false;
    declaration.format = Format::f32;
  }};
};

struct Range {
  const std::byte* begin;
  const std::byte* end;
  explicit Range(ConstView view) : begin(view.data()), end(view.data() + view.bytes()) {}
};

bool overlap(const Range& a, const Range& b) { return a.begin < b.end && b.begin < a.end; }

/// A matrix in q8_0, trained or not, whose kernels take blocks or not.
void allocate_in_blocks(ParameterSet& set, device::Device& device, bool trainable, bool may_be,
                        bool training) {
  const Shape shape{18, 64};
  Declaration declaration = matrix("a", shape, Shard::whole(shape));
  declaration.trainable = trainable;
  declaration.may_be_in_blocks = may_be;
  declaration.format = Format::q8_0;
  set.declare(declaration);
  set.allocate(device, {DType::f32, DType::bf16, training, 1});
}

TEST(ParameterSet, BlocksAreForWhatIsNotTrainedAndIsReadSo) {
  const auto device = device::make_cpu_device(1);
  for (const auto& [trainable, may_be, training, is_taken] : {std::tuple{true, true, false, true},
                                                              {false, true, true, true},
                                                              {true, true, true, false},
                                                              {true, false, false, false}}) {
    ParameterSet set;
    const auto take = [&] { allocate_in_blocks(set, *device, trainable, may_be, training); };
    if (is_taken) {
      EXPECT_NO_THROW(take());
    } else {
      EXPECT_THROW(take(), InternalError);
    }
  }
}

TEST(ParameterSet, BlocksOfAFileBecomeTiles) {
  const auto device = device::make_cpu_device(1);
  ParameterSet set;
  allocate_in_blocks(set, *device, true, true, false);
  Parameter& parameter = *set.find("a");
  const Weight weight = parameter.compute();
  EXPECT_EQ(weight.shape, (Shape{18, 64}));
  EXPECT_EQ(weight.view.shape(), (Shape{2, 2 * 16 * 34}));
  EXPECT_EQ(device->arena(device::MemoryClass::weights).in_use(), 2 * 2 * 16 * 34);
  std::vector<std::byte> blocks(18 * 2 * 34), back(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<std::byte>(i * 31);
  const uint64_t before = parameter.version();
  set.load_blocks(*device, parameter, blocks);
  EXPECT_GT(parameter.version(), before);
  from_tiles(Format::q8_0, {weight.view.data(), static_cast<size_t>(weight.view.bytes())}, 18, 64,
             back);
  EXPECT_EQ(back, blocks);
  EXPECT_THROW(set.load(*device, parameter, DType::f32, blocks.data()), InternalError);
  EXPECT_THROW(set.load_blocks(*device, parameter, std::span(blocks).first(34)), InternalError);
}

TEST_F(Placed, EveryViewLiesInItsFlatRangeAlignedAndAlone) {
  place({DType::f32, DType::bf16, true, 2});
  const Range flat(set_.flat_gradient_sums(0));
  std::vector<Range> sums, weights, masters;
  for (const Parameter& p : set_.all()) {
    for (int which = 0; which < p.num_gradients(); ++which)
      sums.emplace_back(p.gradient_sum(which));
    weights.emplace_back(p.compute());
    masters.emplace_back(p.master());
    EXPECT_EQ(p.gradient().data(), p.gradient_sum(0).data());
    EXPECT_EQ(p.gradient().shape(), p.local_shape());
  }
  EXPECT_EQ(set_.find("bias")->gradient_sum().shape(), (Shape{4, 10}));
  EXPECT_EQ(set_.find("tied")->gradient_sum(1).shape(), (Shape{3, 10}));
  EXPECT_EQ(sums.size(), 4u);
  for (const auto* ranges : {&sums, &weights, &masters}) {
    for (size_t i = 0; i < ranges->size(); ++i) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>((*ranges)[i].begin) % device::kAlignment, 0u);
      for (size_t j = 0; j < i; ++j)
        EXPECT_FALSE(overlap((*ranges)[i], (*ranges)[j])) << i << " " << j;
    }
  }
  for (const Range& sum : sums) EXPECT_TRUE(flat.begin <= sum.begin && sum.end <= flat.end);
}

TEST_F(Placed, LevelsAreDisjointAndZeroedApart) {
  place({DType::f32, DType::f32, true, 2});
  EXPECT_FALSE(overlap(Range(set_.flat_gradient_sums(0)), Range(set_.flat_gradient_sums(1))));
  set_.select_level(1);
  Parameter& weight = *set_.find("weight");
  EXPECT_TRUE(overlap(Range(weight.gradient_sum()), Range(set_.flat_gradient_sums(1))));
  for (int level = 0; level < 2; ++level) {
    const View flat = set_.flat_gradient_sums(level);
    std::memset(flat.data(), 0x3f, static_cast<size_t>(flat.bytes()));
  }
  set_.zero_gradient_sums(*device_, 1);
  for (const Parameter& p : set_.all()) {
    for (int64_t i = 0; i < p.local_elements(); ++i) ASSERT_EQ(p.gradient_sum().as<float>()[i], 0);
  }
  set_.select_level(0);
  EXPECT_NE(weight.gradient_sum().as<float>()[0], 0);
}

/// Uses 1, 2 and 4 of six of a group, then all three of another, of a matrix and a vector each.
class SharedUses : public Placed {
 protected:
  void declare() {
    for (const auto& [group, number, count] :
         {std::array{0, 1, 6}, {0, 2, 6}, {0, 4, 6}, {1, 0, 3}, {1, 1, 3}, {1, 2, 3}}) {
      set_.begin_use({number, count});
      const Shape weight{5, 7}, bias{7};
      given_.push_back(
          &set_.declare(matrix(fmt::format("{}.weight", group), weight, Shard::whole(weight))));
      given_.push_back(
          &set_.declare({fmt::format("{}.bias", group), bias, Shard::whole(bias), Init{}}));
      set_.end_use();
    }
  }
  std::vector<Parameter*> given_;
};

TEST_F(SharedUses, HaveOneValueAndSumsOfTheirOwn) {
  declare();
  place({DType::f32, DType::bf16, true, 2});
  ASSERT_EQ(set_.shared().size(), 2u);
  EXPECT_EQ(set_.shared()[0].uses, (std::vector<int>{1, 2, 4}));
  EXPECT_EQ(set_.shared()[0].count, 6);
  EXPECT_EQ(set_.shared()[1].uses, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(set_.shared()[1].parameters, (ParameterRun{2, 4}));
  std::vector<Range> sums;
  for (const int level : {0, 1}) {
    set_.select_level(level);
    for (size_t i = 0; i < given_.size(); ++i) {
      const size_t group = i / 6, use = i % 6 / 2, part = i % 2;
      const Parameter& owner = set_.all()[2 * group + part];
      EXPECT_EQ(given_[i] == &owner, use == 0);
      EXPECT_EQ(given_[i]->compute().view.data(), owner.compute().view.data());
      EXPECT_EQ(given_[i]->compute().format, Format::bf16);
      EXPECT_EQ(owner.declaration().is_copy, group == 0);
      if (level == 0 || use == 0) sums.emplace_back(given_[i]->gradient_sum());
      const Range all(set_.use_sums(group, use)), own(given_[i]->gradient_sum());
      EXPECT_EQ(own.begin - all.begin, part * 64 * sizeof(float));
      EXPECT_LE(own.end, all.end);
    }
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(overlap(sums[i], sums[j])) << i << " " << j;
  }
}

TEST_F(SharedUses, AreZeroedWithEveryLevelAndSeeEveryChange) {
  declare();
  place({DType::f32, DType::f32, true, 2});
  for (const int level : {1, 0}) {
    set_.select_level(level);
    for (const Parameter* given : given_) given->gradient_sum().as<float>()[3] = 1;
    set_.zero_gradient_sums(*device_, level);
    for (const Parameter* given : given_) EXPECT_EQ(given->gradient_sum().as<float>()[3], 0);
  }
  const uint64_t version = given_[2]->compute().version;
  set_.refresh_compute(*device_);
  EXPECT_GT(given_[2]->compute().version, version);
}

/// A use after one that lies behind it, a layer that shares some of its weights alone, a name that
/// is there already.
TEST_F(SharedUses, OutOfOrderOrInPartAreRefused) {
  const Shape shape{4};
  const auto use = [&](const Use& of, std::initializer_list<const char*> names) {
    set_.begin_use(of);
    for (const char* name : names) set_.declare({name, shape, Shard::whole(shape), Init{}});
    set_.end_use();
  };
  use({1, 3}, {"a", "b"});
  EXPECT_THROW(use({0, 3}, {"a", "b"}), InternalError);
  EXPECT_THROW(use({2, 3}, {"a", "c"}), InternalError);
}

TEST_F(Placed, ComputeIsTheMasterWhenTheTypesAgree) {
  place({DType::f32, DType::f32, true, 1});
  for (const Parameter& p : set_.all()) {
    EXPECT_TRUE(p.compute_is_master());
    EXPECT_EQ(p.master().data(), p.compute().view.data());
  }
  EXPECT_EQ(bytes_in(device::MemoryClass::optimizer), 0);
}

TEST_F(Placed, RefreshRoundsTheMasterOnce) {
  place({DType::f32, DType::bf16, true, 1});
  for (Parameter& p : set_.all()) {
    const uint64_t version = p.version();
    // Halfway between two bf16 numbers (to even), a hair above it, infinity.
    p.master().as<float>()[0] = 1.00390625f;
    p.master().as<float>()[1] = std::nextafter(1.00390625f, 2.0f);
    p.master().as<float>()[2] = 3.4e38f;
    set_.refresh_compute(*device_);
    EXPECT_GT(p.version(), version);
    EXPECT_EQ(to_f32(p.compute().view.as<bf16_t>()[0]), 1.0f);
    EXPECT_EQ(to_f32(p.compute().view.as<bf16_t>()[1]), 1.0078125f);
    EXPECT_TRUE(std::isinf(to_f32(p.compute().view.as<bf16_t>()[2])));
    for (int64_t i = 0; i < p.local_elements(); ++i) {
      EXPECT_EQ(p.compute().view.as<bf16_t>()[i].bits, to_bf16(p.master().as<float>()[i]).bits);
    }
  }
}

/// One range per format; a frozen parameter has neither master nor gradient.
TEST_F(Placed, FormatsAndFreezingArePerDeclaration) {
  declare_frozen_ = "weight";
  place({DType::f32, DType::bf16, true, 1});
  ASSERT_EQ(set_.flat_computes().size(), 2u);
  const Parameter& frozen = *set_.find("weight");
  EXPECT_EQ(frozen.compute().format, Format::f32);
  EXPECT_TRUE(
      overlap(Range(ConstView(frozen.compute())), Range(set_.flat_computes().at(Format::f32))));
  EXPECT_TRUE(frozen.gradient().absent());
  EXPECT_EQ(frozen.owned().count, 0);
  size_t index = 0;
  for (const Parameter& p : set_.all()) {
    const int64_t sums = set_.gradient_begin(index + 1) - set_.gradient_begin(index);
    EXPECT_EQ(sums > 0, p.trainable()) << p.name();
    ++index;
    if (&p == &frozen) continue;
    EXPECT_EQ(p.compute().format, Format::bf16) << p.name();
    EXPECT_FALSE(p.compute_is_master()) << p.name();
  }
}

/// From either type: what is narrower widens exactly, what is wider rounds once.
TEST_F(Placed, AFrozenParameterIsLoadedInItsFormat) {
  declare_frozen_ = "weight";
  place({DType::f32, DType::bf16, true, 1});
  Parameter& frozen = *set_.find("weight");
  const auto elements = static_cast<size_t>(frozen.local_elements());
  const std::vector<float> wide(elements, 1.00390625f);
  set_.load(*device_, frozen, DType::f32, wide.data());
  EXPECT_EQ(frozen.compute().view.as<float>()[elements - 1], 1.00390625f);
  const std::vector<bf16_t> narrow(elements, to_bf16(-2.5f));
  set_.load(*device_, frozen, DType::bf16, narrow.data());
  EXPECT_EQ(frozen.compute().view.as<float>()[elements - 1], -2.5f);
  const uint64_t version = frozen.compute().version;
  set_.load(*device_, frozen, DType::f32, wide.data());
  EXPECT_GT(frozen.compute().version, version);
}

TEST_F(Placed, TellsWhoOwnsWhat) {
  place({.owner = 1, .owners = 3, .bucket_elements = 64});
  const Ownership expected = owned_ranges(set_.all(), 3, 64);
  for (int owner = 0; owner < 3; ++owner)
    EXPECT_EQ(set_.owned_by(owner), expected[static_cast<size_t>(owner)]);
  for (size_t i = 0; i < set_.all().size(); ++i)
    EXPECT_EQ(set_.all()[i].owned(), expected[1][i]) << set_.all()[i].name();
}

TEST_F(Placed, InferenceTakesWeightsAlone) {
  place({DType::f32, DType::f32, false, 0});
  EXPECT_EQ(bytes_in(device::MemoryClass::gradients), 0);
  EXPECT_EQ(bytes_in(device::MemoryClass::optimizer), 0);
  // 64 + 64 + 64 elements: each rounded up to whole cache lines of elements.
  EXPECT_EQ(bytes_in(device::MemoryClass::weights), 3 * 64 * 4);
  EXPECT_EQ(set_.find("bias")->compute().view.as<float>()[9], 1.0f);
}

TEST(Parameter, KnowsItsCanonicalShards) {
  const Shape shape{8, 4};
  const Parameter part({"w", shape, Shard::part(shape, 0, 1, 2), {}, 4});
  EXPECT_EQ(part.local_canonical_shards(), 2);
  EXPECT_EQ(part.canonical_shard(0), 2);
  const Parameter columns({"w", shape, Shard::part(shape, 1, 3, 4), {}, 4});
  EXPECT_EQ(columns.local_canonical_shards(), 1);
  EXPECT_EQ(columns.canonical_shard(0), 3);
  // Rows 2 to 3 and 7: parts 2, 3 and 7 of 8.
  const Parameter two({"w", shape, Shard{0, 2, 2, 7, 1}, {}, 8});
  EXPECT_EQ(two.local_shape(), Shape({3, 4}));
  EXPECT_EQ(two.local_canonical_shards(), 3);
  EXPECT_EQ(two.canonical_shard(0), 2);
  EXPECT_EQ(two.canonical_shard(1), 3);
  EXPECT_EQ(two.canonical_shard(2), 7);
  const Parameter whole({"w", shape, Shard::whole(shape), {}});
  EXPECT_EQ(whole.local_canonical_shards(), 1);
  EXPECT_TRUE(whole.is_matrix());
  EXPECT_FALSE(Parameter({"b", Shape{4}, Shard::whole(Shape{4}), {}}).is_matrix());
}

}  // namespace
}  // namespace megalith::parameters
