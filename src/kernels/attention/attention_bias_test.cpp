// SPDX-License-Identifier: Apache-2.0
// Biases of scores by distance: exactly the keys of a bucket, the order of their gradient's sums,
// the cut into calls, and what is refused. (Reference, finite differences, instruction sets,
// threads and the cache are cases of the other tests.)
#include <gtest/gtest.h>

#include "kernels/attention/attention_stated.h"

namespace megalith::kernels {
namespace {

using testing::expect_same_bits;

/// Queries of 0, so that the biases alone make the scores.
AttentionData unscored(const AttentionCase& shape, DType dtype) {
  AttentionData data(shape, dtype);
  data.qkv.fill_integers(5, -8, 8);
  for (int64_t t = 0; t < data.num_rows; ++t) {
    for (int64_t c = 0; c < shape.num_heads * shape.head_size; ++c) data.qkv.set(t, c, 0);
  }
  return data;
}

/// One bucket far above the others: y is the mean of the values at its distances.
TEST(AttentionBias, ABucketAlonePicksItsKeys) {
  const auto device = device::make_cpu_device(2);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const RelativeBuckets& buckets :
         {RelativeBuckets{8, 20, false}, RelativeBuckets{8, 20, true}}) {
      const bool causal = !buckets.bidirectional;
      AttentionData data = unscored(biased({"", {150}, 1, 1, 16, causal}, buckets), dtype);
      for (int64_t bucket = 0; bucket < buckets.count; ++bucket) {
        data.table.fill([&](int64_t b) { return b == bucket ? 3 : -1024; });
        data.forward(*device);
        for (int64_t i = 0; i < 150; ++i) {
          float count = 0, sum[16] = {};
          for (int64_t j = 0; j < (causal ? i + 1 : 150); ++j) {
            if (buckets.of(j - i) != bucket) continue;
            ++count;
            for (int64_t d = 0; d < 16; ++d) sum[d] += static_cast<float>(data.qkv.at(j, 32 + d));
          }
          for (int64_t d = 0; d < 16 && count > 0; ++d) {
            const float mean = sum[d] / count;
            const float stored = dtype == DType::bf16  ? to_f32(to_bf16(mean))
                                 : dtype == DType::f16 ? to_f32(to_f16(mean))
                                                       : mean;
            ASSERT_EQ(data.y.at(i, d), stored)
                << name_of(dtype) << " bucket " << bucket << " query " << i;
          }
        }
      }
    }
  }
}

TEST(AttentionBias, ATableOfZerosGivesTheBitsOfNone) {
  const auto device = device::make_cpu_device(2);
  for (const AttentionCase& shape : attention_cases()) {
    if (shape.softcap > 0 || !shape.key_lengths.empty() || shape.buckets.count > 0) continue;
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      AttentionData plain(shape, dtype), zeros(biased(shape, {32, 128, !shape.causal}), dtype);
      zeros.table.fill_constant(0);
      for (AttentionData* data : {&plain, &zeros}) {
        data->forward(*device);
        data->backward(*device);
      }
      expect_same_bits(zeros.y, plain.y, shape.name + " y");
      expect_same_bits(zeros.lse, plain.lse, shape.name + " lse");
      expect_same_bits(zeros.dqkv, plain.dqkv, shape.name + " dqkv");
    }
  }
}

/// f32 heads; bf16 ones are StatedAttention's.
class StatedBias {
 public:
  /// `data` after forward.
  explicit StatedBias(const AttentionData& data) : d_(data) {}

  testing::TestTensor run() {
    for (size_t s = 0; s < d_.shape.lengths.size(); ++s) {
      row_ = d_.cu_seqlens[s];
      add_table_gradient(d_, d_.shape.lengths[s], 64, [&](int64_t h, int64_t i, int64_t j) {
        return gradient(h, row_ + i, row_ + j, j - i);
      });
    }
    return d_.dtable;
  }

 private:
  static float read(const ConstHeadsView& x, int64_t t, int64_t h, int64_t d) {
    return reinterpret_cast<const float*>(x.at(t, h))[d];
  }
  float dot(const ConstHeadsView& a, int64_t i, int64_t h, const ConstHeadsView& b, int64_t j,
            int64_t g) const {
    float sum = 0;
    for (int64_t d = 0; d < d_.shape.head_size; ++d)
      sum = std::fma(read(a, i, h, d), read(b, j, g, d), sum);
    return sum;
  }
  float delta(int64_t h, int64_t i) const {
    std::array<float, 16> lanes{};
    for (int64_t d = 0; d < d_.shape.head_size; ++d) {
      float& lane = lanes[static_cast<size_t>(d % 16)];
      lane = std::fma(read(a_.dy_TND, i, h, d), read(a_.y_TND, i, h, d), lane);
    }
    for (size_t half = 8; half > 0; half /= 2) {
      for (size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
    }
    return lanes[0];
  }
  float gradient(int64_t h, int64_t i, int64_t j, int64_t distance) const {
    if (d_.shape.causal && distance > 0) return 0;
    const int64_t g = h / (d_.shape.num_heads / d_.shape.num_kv_heads);
    const float s = d_.scale() * dot(a_.q_TND, i, h, a_.k_TKD, j, g) + bias_of(d_, h, distance);
    const float p = elementary::exp(s - static_cast<float>(d_.lse.at(h, i)));
    return p * (dot(a_.dy_TND, i, h, a_.v_TKD, j, g) - delta(h, i));
  }

  AttentionData d_;
  AttentionBackward a_ = d_.backward_arguments();
  int64_t row_ = 0;
};

TEST(AttentionBias, GradientsOfF32HeadsAddUpInTheStatedOrder) {
  for (const AttentionCase& shape :
       {biased({"causal", {150, 1, 65}, 4, 2, 20}, {8, 20, false}),
        biased({"both sides", {129, 64}, 2, 1, 9, false}, {32, 128, true})}) {
    const auto device = device::make_cpu_device(1);
    AttentionData data(shape, DType::f32);
    data.forward(*device);
    const testing::TestTensor stated = StatedBias(data).run();
    for (testing::TestDevice& on : testing::test_devices()) {
      AttentionData own = data;
      own.backward(*on.device);
      expect_same_bits(own.dtable, stated, shape.name + " " + on.name);
    }
  }
}

/// As micro-batches do.
TEST(AttentionBias, CallsOneAfterTheOtherGiveTheGradientOfOneCall) {
  const auto device = device::make_cpu_device(2);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const AttentionCase shape = biased({"", {190, 70, 1, 200}, 4, 2, 12}, {32, 128, false});
    AttentionData all(shape, dtype);
    testing::TestTensor sum = all.dtable;
    all.forward(*device);
    all.backward(*device);
    for (size_t s = 0; s < shape.lengths.size(); ++s) {
      AttentionCase one = shape;
      one.lengths = {shape.lengths[s]};
      AttentionData own(one, dtype);
      const auto copy_rows = [&](testing::TestTensor& to, const testing::TestTensor& from) {
        to.fill([&](int64_t i) {
          return from.at(all.cu_seqlens[s] + i / to.columns(), i % to.columns());
        });
      };
      copy_rows(own.qkv, all.qkv);
      copy_rows(own.dy, all.dy);
      own.dtable = sum;
      own.forward(*device);
      own.backward(*device);
      sum = own.dtable;
    }
    expect_same_bits(sum, all.dtable, "dtable");
  }
}

/// The last chunk of lanes is not full, and nothing is masked.
TEST(AttentionBias, LargeOnesStayWithTheirQueries) {
  const auto device = device::make_cpu_device(1);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    AttentionData data(biased({"", {41}, 2, 1, 16, false}, {8, 20, true}), dtype);
    data.table.fill_constant(1000);
    data.forward(*device);
    data.backward(*device);
    for (const testing::TestTensor* tensor : {&data.y, &data.dqkv, &data.dtable}) {
      for (int64_t i = 0; i < tensor->size(); ++i) ASSERT_TRUE(std::isfinite(tensor->at(i))) << i;
    }
  }
}

TEST(AttentionBias, AGradientNobodyWantsCostsNothingElse) {
  const auto device = device::make_cpu_device(3);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    AttentionData wanted(biased({"", {150, 40}, 2, 1, 16, false}, {32, 128, true}), dtype);
    wanted.forward(*device);
    AttentionData frozen = wanted;
    wanted.backward(*device);
    AttentionBackward a = frozen.backward_arguments();
    a.dtable_BN = {};
    Exec exec(*device);
    attention_backward(exec, a);
    expect_same_bits(frozen.dqkv, wanted.dqkv, "dqkv");
  }
}

TEST(AttentionBias, RefusesWhatHasNoCode) {
  const auto device = device::make_cpu_device(1);
  const AttentionCase shape = biased({"", {8}, 2, 1, 16}, {8, 20, false});
  AttentionData data(shape, DType::f32), capped = data, wrong = data;
  data.forward(*device);
  capped.shape.softcap = 2;
  EXPECT_THROW(capped.forward(*device), InternalError);
  wrong.shape.buckets.count = 16;
  EXPECT_THROW(wrong.forward(*device), InternalError);
  wrong.shape.buckets = {8, 4, false};
  EXPECT_THROW(wrong.forward(*device), InternalError);
  AttentionCase cross = shape;
  cross.causal = false;
  cross.key_lengths = {5};
  AttentionData other(cross, DType::f32);
  EXPECT_THROW(other.forward(*device), InternalError);
  AttentionBackward a = data.backward_arguments();
  a.bias = {};
  Exec exec(*device);
  EXPECT_THROW(attention_backward(exec, a), InternalError);
}

}  // namespace
}  // namespace megalith::kernels
