// SPDX-License-Identifier: Apache-2.0
// The four steps of the loss: against the reference, exact inputs, finite differences, padding,
// ignored rows, cuts of the vocabulary over ranks.
#include "kernels/cross_entropy/cross_entropy.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/elementary/kernel_testing.h"
#include "kernels/elementwise/pointwise.h"

namespace megalith::kernels {
namespace {

using testing::expect_close;
using testing::expect_same_bits;
using testing::TestTensor;

/// One loss over `ranks` equal parts of the columns; combines as the callers of the steps do.
struct Loss {
  int64_t rows, columns, valid;
  DType dtype;
  int shards;
  TestTensor logits, targets, weights, max, sums, sum, target, loss, lse, dlogits;
  float scale = 0.125f, z_loss = 0, logits_scale = 1, softcap = 0;
  DType gradient_dtype;

  Loss(int64_t r, int64_t v, int64_t valid_columns, int shard_count, DType type,
       DType gradient_type)
      : rows(r),
        columns(v),
        valid(valid_columns),
        dtype(type),
        shards(shard_count),
        logits(type, Shape{r, v}, 3, 1),
        targets(DType::i32, Shape{r}),
        weights(type, Shape{r}),
        max(type, Shape{r}),
        sums(type, Shape{shard_count, r}, 2),
        sum(type, Shape{r}),
        target(type, Shape{r}),
        loss(type, Shape{r}),
        lse(type, Shape{r}),
        dlogits(gradient_type, Shape{r, v}, 1, 3),
        gradient_dtype(gradient_type) {
    logits.fill_normal(7, 3.0);
    targets.fill([=](int64_t i) { return static_cast<double>(i * 37 % valid_columns); });
    weights.fill([](int64_t i) { return i % 3 == 1 ? 0.0 : 0.5 * static_cast<double>(1 + i % 4); });
  }

  static double tree(const TestTensor& x, int64_t begin, int64_t end, int64_t r) {
    if (end - begin == 1) return x.at(begin, r);
    const int64_t middle = begin + (end - begin + 1) / 2;
    const double s = tree(x, begin, middle, r) + tree(x, middle, end, r);
    return x.dtype() == DType::f32 ? static_cast<double>(static_cast<float>(s)) : s;
  }

  void run(device::Device& device, int ranks = 1, std::string_view only = {}) {
    Exec exec(device);
    exec.only = only;
    const int64_t width = columns / ranks;
    TestTensor work = logits;  // exps in place, but of capped logits
    if (softcap != 0) kernels::softcap(exec, work.view(), logits_scale, softcap);
    if (softcap == 0 && logits_scale != 1) kernels::scale(exec, work.view(), logits_scale);
    TestTensor capped = work;
    const auto vocab = [&](int rank) {
      return VocabRange{.begin = rank * width, .valid = valid, .shards = shards / ranks};
    };
    const auto part = [&](TestTensor& x, int rank) {
      return x.view().columns(rank * width, width);
    };
    max.fill_constant(-INFINITY);
    target.fill_constant(0);
    TestTensor some(dtype, Shape{rows});
    for (int rank = 0; rank < ranks; ++rank) {
      cross_entropy_row_max(exec, {part(work, rank), vocab(rank), some.view()});
      for (int64_t r = 0; r < rows; ++r) max.set(r, std::fmax(max.at(r), some.at(r)));
    }
    for (int rank = 0; rank < ranks; ++rank) {
      const int count = shards / ranks;
      cross_entropy_exp_sums(exec, {.logits_RV = part(work, rank),
                                    .vocab = vocab(rank),
                                    .max_R = max.view(),
                                    .targets_R = targets.view(),
                                    .exps_RV = part(work, rank),
                                    .sums_PR = sums.view().rows(rank * count, count),
                                    .target_R = some.view()});
      for (int64_t r = 0; r < rows; ++r) target.set(r, target.at(r) + some.at(r));
    }
    for (int64_t r = 0; r < rows; ++r) sum.set(r, tree(sums, 0, shards, r));
    cross_entropy_row_loss(exec, {max.view(), sum.view(), target.view(), loss.view(), lse.view()});
    for (int rank = 0; rank < ranks; ++rank) {
      cross_entropy_gradient(exec, {.exps_RV = part(work, rank),
                                    .vocab = vocab(rank),
                                    .max_R = max.view(),
                                    .sum_R = sum.view(),
                                    .targets_R = targets.view(),
                                    .weight_R = weights.view(),
                                    .scale = scale,
                                    .z_loss = z_loss,
                                    .dlogits_RV = part(dlogits, rank),
                                    .logits_scale = logits_scale,
                                    .softcap = softcap,
                                    .logits_RV = softcap != 0 ? part(capped, rank) : View{}});
    }
  }
  double total() const {
    double sum_of_losses = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const double l = lse.at(r);
      sum_of_losses += weights.at(r) * static_cast<double>(scale) *
                       (loss.at(r) + static_cast<double>(z_loss) * l * l);
    }
    return sum_of_losses;
  }
};

struct Size {
  int64_t rows, columns, valid;
  int shards;
};
const std::vector<Size>& sizes() {
  static const std::vector<Size> all = {{1, 1, 1, 1},     {0, 64, 64, 1},   {5, 97, 97, 1},
                                        {7, 128, 101, 4}, {3, 1000, 30, 8}, {13, 48, 48, 2}};
  return all;
}

TEST(CrossEntropy, MatchesReference) {
  const auto device = device::make_cpu_device(2);
  for (const Size& s : sizes()) {
    for (const DType gradient : {DType::f32, DType::bf16, DType::f16}) {
      Loss fast(s.rows, s.columns, s.valid, s.shards, DType::f32, gradient), exact = fast;
      fast.z_loss = exact.z_loss = 1e-3f;
      fast.run(*device);
      exact.run(*device, 1, "reference");
      expect_same_bits(fast.max, exact.max, "max");
      expect_same_bits(fast.target, exact.target, "target");
      // |logit| < 20: l - max rounds by 40 u, exp by 2 u, a sum by V / 16 + 6 u.
      const double u = 0x1p-24;
      const double relative = (42 + static_cast<double>(s.columns) / 16 + 10) * u;
      const auto of = [](const TestTensor& x, double by) {
        return [&x, by](int64_t i) { return by * std::abs(x.at(i)) + 1e-44; };
      };
      expect_close(fast.sum, exact.sum, of(exact.sum, relative), "sum");
      expect_close(fast.lse, exact.lse, relative + 60 * u, "lse");
      expect_close(fast.loss, exact.loss, relative + 120 * u, "loss");
      // A gradient is at most 2 * weight * scale * (1 + 2 z lse), relative errors as above.
      const double rounding = gradient == DType::bf16 ? testing::unit_roundoff(gradient) : 0;
      expect_close(
          fast.dlogits, exact.dlogits,
          [&](int64_t i) {
            return (2 * relative + 8 * u) + rounding * 1.01 * std::abs(exact.dlogits.at(i));
          },
          "dlogits");
      fast.dlogits.expect_gaps_untouched();
    }
  }
}

TEST(CrossEntropy, CappedAndScaledLogitsMatchReference) {
  const auto device = device::make_cpu_device(2);
  for (const Size& s : sizes()) {
    for (const float softcap : {0.0f, 4.0f}) {
      for (const DType gradient : {DType::f32, DType::bf16, DType::f16}) {
        Loss fast(s.rows, s.columns, s.valid, s.shards, DType::f32, gradient), exact = fast;
        fast.softcap = exact.softcap = softcap;
        fast.logits_scale = exact.logits_scale = 0.75f;
        fast.run(*device);
        exact.run(*device, 1, "reference");
        // As without; a capped logit (at most 4) is within 7 u of its size, so exps move by 56 u.
        const double u = 0x1p-24;
        const double relative = (42 + static_cast<double>(s.columns) / 16 + 10 + 56) * u;
        expect_close(fast.loss, exact.loss, relative + 120 * u, "loss");
        const double rounding = gradient == DType::bf16 ? testing::unit_roundoff(gradient) : 0;
        expect_close(
            fast.dlogits, exact.dlogits,
            [&](int64_t i) {
              return 2 * relative + 8 * u + rounding * 1.01 * std::abs(exact.dlogits.at(i));
            },
            "dlogits");
        fast.dlogits.expect_gaps_untouched();
      }
    }
  }
}

TEST(CrossEntropy, EqualLogitsAreExact) {
  Loss even(9, 64, 64, 4, DType::f32, DType::f32);
  even.logits.fill_constant(2.5);
  for (testing::TestDevice& on : testing::test_devices()) {
    even.run(*on.device);
    for (int64_t r = 0; r < 9; ++r) {
      ASSERT_EQ(even.sum.at(r), 64) << on.name;
      ASSERT_EQ(even.loss.at(r),
                static_cast<double>(2.5f + static_cast<float>(std::log(64.0)) - 2.5f))
          << on.name;
      const double weight = even.weights.at(r) / 8;
      for (int64_t v = 0; v < 64; ++v) {
        const double expected =
            weight / 64 - (static_cast<double>(v) == even.targets.at(r) ? weight : 0);
        ASSERT_EQ(even.dlogits.at(r, v), expected) << on.name << " " << r << " " << v;
      }
    }
  }
}

TEST(CrossEntropy, ReferenceGradientMatchesFiniteDifference) {
  const auto device = device::make_cpu_device(1);
  for (const float z_loss : {0.0f, 0.01f}) {
    for (const float softcap : {0.0f, 2.0f}) {
      for (const float logits_scale : {1.0f, 0.7f}) {
        Loss x(4, 12, 10, 2, DType::f64, DType::f64);
        x.z_loss = z_loss;
        x.softcap = softcap;
        x.logits_scale = logits_scale;
        x.logits.fill_normal(3);
        const auto loss = [&] {
          x.run(*device);
          return x.total();
        };
        loss();
        const TestTensor gradient = x.dlogits;
        testing::expect_gradient(loss, x.logits, gradient, 1e-8, "logits");
      }
    }
  }
}

/// The gradient of `x` written over its exps, as `type` in the first bytes of each row.
std::vector<std::byte> gradient_over_exps(Exec& exec, const Loss& x, DType type) {
  TestTensor logits = x.logits, max = x.max, sum = x.sum, target = x.target, sums = x.sums;
  const VocabRange vocab{.begin = 0, .valid = x.valid, .shards = x.shards};
  TestTensor targets = x.targets, weights = x.weights;
  cross_entropy_exp_sums(exec, {.logits_RV = logits.view(),
                                .vocab = vocab,
                                .max_R = max.view(),
                                .targets_R = targets.view(),
                                .exps_RV = logits.view(),
                                .sums_PR = sums.view(),
                                .target_R = target.view()});
  const View exps = logits.view();
  const View gradient(exps.data(), type, exps.shape(),
                      exps.row_stride() * bytes_of(exps.dtype()) / bytes_of(type));
  cross_entropy_gradient(exec, {.exps_RV = exps,
                                .vocab = vocab,
                                .max_R = max.view(),
                                .sum_R = sum.view(),
                                .targets_R = targets.view(),
                                .weight_R = weights.view(),
                                .scale = x.scale,
                                .z_loss = x.z_loss,
                                .dlogits_RV = gradient});
  std::vector<std::byte> bytes;
  for (int64_t r = 0; r < x.rows; ++r) {
    const std::byte* row = gradient.rows(r, 1).data();
    bytes.insert(bytes.end(), row, row + x.columns * bytes_of(type));
  }
  return bytes;
}

TEST(CrossEntropy, TheGradientMayLieWhereItsInputLay) {
  const auto device = device::make_cpu_device(2);
  for (const std::string_view only : {"vector", "reference"}) {
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
      Loss x(7, 208, 203, 2, DType::f32, type);
      x.run(*device, 1, only);
      Exec exec(*device);
      exec.only = only;
      const std::vector<std::byte> in_place = gradient_over_exps(exec, x, type);
      const int64_t row = x.columns * bytes_of(type);
      for (int64_t r = 0; r < x.rows; ++r) {
        EXPECT_EQ(std::memcmp(in_place.data() + r * row, x.dlogits.view().rows(r, 1).data(),
                              static_cast<size_t>(row)),
                  0)
            << only << ", " << name_of(type) << ", row " << r;
      }
    }
  }
}

TEST(CrossEntropy, IgnoredRowsAndPaddingGetExactlyZero) {
  const auto device = device::make_cpu_device(1);
  Loss x(6, 128, 101, 4, DType::f32, DType::f32);
  // What no one may look at: padding columns, and the target of an ignored row.
  for (int64_t r = 0; r < 6; ++r) {
    for (int64_t v = 101; v < 128; ++v) x.logits.set(r, v, NAN);
  }
  x.targets.set(1, -100);
  x.logits.set(4, 3, INFINITY);  // row 4 is ignored too (weight 0)
  x.run(*device);
  for (int64_t r = 0; r < 6; ++r) {
    double sum = 0;
    for (int64_t v = 0; v < 128; ++v) {
      const double g = x.dlogits.at(r, v);
      if (v >= 101 || r % 3 == 1) {
        ASSERT_TRUE(g == 0 && !std::signbit(g)) << r << " " << v;
      }
      sum += g;
    }
    // Exps over their own sum, which rounds by V / 16 + 6 u; the factor by 2 u, each product and
    // the target's difference by u.
    const double bound =
        x.weights.at(r) * static_cast<double>(x.scale) * (128.0 / 16 + 10) * 0x1p-24;
    ASSERT_NEAR(sum, 0, bound) << r;
  }
}

TEST(CrossEntropy, ANotANumberShowsInTheLoss) {
  const auto device = device::make_cpu_device(1);
  Loss x(3, 80, 80, 1, DType::f32, DType::f32);
  x.logits.set(0, 77, NAN);
  x.run(*device);
  EXPECT_TRUE(std::isnan(x.loss.at(0)));
  EXPECT_TRUE(std::isnan(x.dlogits.at(0, 5)));
  EXPECT_TRUE(std::isfinite(x.loss.at(1)));
}

TEST(CrossEntropy, BitsDependOnNeitherDeviceNorRanks) {
  for (const auto& [rows, columns, valid, shards] :
       {Size{11, 1024, 900, 8}, Size{4, 96, 96, 8}, Size{4, 328, 20, 8}}) {
    std::unique_ptr<Loss> first;
    for (testing::TestDevice& on : testing::test_devices()) {
      for (const int ranks : {1, 2, 4, 8}) {
        auto x = std::make_unique<Loss>(rows, columns, valid, shards, DType::f32, DType::bf16);
        x->z_loss = 1e-4f;
        x->softcap = shards == 8 && rows == 4 ? 3.0f : 0.0f;
        x->run(*on.device, ranks);
        if (first == nullptr) {
          first = std::move(x);
          continue;
        }
        const std::string what = fmt::format("{} {} ranks", on.name, ranks);
        expect_same_bits(x->sums, first->sums, what);
        expect_same_bits(x->loss, first->loss, what);
        expect_same_bits(x->lse, first->lse, what);
        expect_same_bits(x->dlogits, first->dlogits, what);
      }
    }
  }
}

TEST(CrossEntropy, RowsMayComeInSeveralCalls) {
  const auto device = device::make_cpu_device(2);
  Loss all(10, 200, 190, 2, DType::f32, DType::f32);
  all.run(*device);
  for (int64_t begin = 0; begin < 10; begin += 3) {
    const int64_t count = std::min<int64_t>(3, 10 - begin);
    Loss some(count, 200, 190, 2, DType::f32, DType::f32);
    some.logits.fill([&](int64_t i) { return all.logits.at(begin * 200 + i); });
    some.targets.fill([&](int64_t i) { return all.targets.at(begin + i); });
    some.weights.fill([&](int64_t i) { return all.weights.at(begin + i); });
    some.run(*device);
    for (int64_t i = 0; i < count * 200; ++i) {
      ASSERT_EQ(some.dlogits.at(i), all.dlogits.at(begin * 200 + i));
    }
  }
}

TEST(CrossEntropy, EvaluationNeedsNoRoomForExponentials) {
  const auto device = device::make_cpu_device(1);
  Loss x(5, 97, 90, 1, DType::f32, DType::f32);
  x.run(*device);
  TestTensor sums(DType::f32, Shape{1, 5}), target(DType::f32, Shape{5});
  Exec exec(*device);
  cross_entropy_exp_sums(exec, {.logits_RV = x.logits.view(),
                                .vocab = {.begin = 0, .valid = 90, .shards = 1},
                                .max_R = x.max.view(),
                                .targets_R = x.targets.view(),
                                .exps_RV = {},
                                .sums_PR = sums.view(),
                                .target_R = target.view()});
  expect_same_bits(sums, x.sums, "sums");
  expect_same_bits(target, x.target, "target");
}

}  // namespace
}  // namespace megalith::kernels
