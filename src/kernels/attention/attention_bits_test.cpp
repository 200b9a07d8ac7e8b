// SPDX-License-Identifier: Apache-2.0
// The bits of attention are those of the row alone: not of threads, instruction set, neighbours in
// the call, the cut into passes or the split of heads over ranks. And the traced cost and memory.
#include <gtest/gtest.h>

#include "device/recorder.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/attention_cases.h"

namespace megalith::kernels {
namespace {

using testing::expect_same_bits;

TEST(AttentionBits, EqualForAnyThreadsAndInstructionSet) {
  for (const AttentionCase& shape : attention_cases()) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      for (const bool materialised : {false, true}) {
        std::unique_ptr<AttentionData> first;
        for (testing::TestDevice& on : testing::test_devices()) {
          auto data = std::make_unique<AttentionData>(shape, dtype);
          data->materialised = materialised;
          data->forward(*on.device);
          data->backward(*on.device);
          if (first == nullptr) {
            first = std::move(data);
            continue;
          }
          expect_same_bits(data->y, first->y, shape.name + " y " + on.name);
          expect_same_bits(data->lse, first->lse, shape.name + " lse " + on.name);
          expect_same_bits(data->dqkv, first->dqkv, shape.name + " dqkv " + on.name);
          expect_same_bits(data->dkv, first->dkv, shape.name + " dkv " + on.name);
          expect_same_bits(data->dtable, first->dtable, shape.name + " dtable " + on.name);
        }
      }
    }
  }
}

TEST(AttentionBits, OnePassAndTwoPassesAgree) {
  // One group of heads: more threads than items make backward run its two passes.
  for (const bool causal : {true, false}) {
    for (const float dropout : {0.0f, 0.1f}) {
      const AttentionCase shape{"", {333}, 3, 1, 40, causal, dropout};
      AttentionData one(shape, DType::f32), two(shape, DType::f32);
      const auto single = device::make_cpu_device(1), many = device::make_cpu_device(5);
      one.forward(*single);
      one.backward(*single);
      two.forward(*many);
      two.backward(*many);
      expect_same_bits(two.dqkv, one.dqkv, "dqkv");
    }
  }
}

TEST(AttentionBits, ASequenceIsThatOfItsOwnCall) {
  const auto device = device::make_cpu_device(2);
  AttentionData all({"", {90, 70, 1, 200}, 4, 2, 32, true, 0.2f}, DType::bf16);
  all.forward(*device);
  all.backward(*device);
  for (size_t s = 0; s < all.shape.lengths.size(); ++s) {
    AttentionCase shape = all.shape;
    shape.lengths = {all.shape.lengths[s]};
    AttentionData own(shape, DType::bf16);
    const int64_t row = all.cu_seqlens[s];
    const auto copy_rows = [&](testing::TestTensor& to, const testing::TestTensor& from) {
      to.fill([&](int64_t i) { return from.at(row + i / to.columns(), i % to.columns()); });
    };
    copy_rows(own.qkv, all.qkv);
    copy_rows(own.dy, all.dy);
    own.sample.set(0, all.sample.at(static_cast<int64_t>(s)));
    own.position.set(0, all.position.at(static_cast<int64_t>(s)));
    own.forward(*device);
    own.backward(*device);
    for (int64_t t = 0; t < own.num_rows; ++t) {
      for (int64_t c = 0; c < own.y.columns(); ++c) {
        ASSERT_EQ(own.y.at(t, c), all.y.at(row + t, c)) << s << " " << t;
      }
      for (int64_t c = 0; c < own.dqkv.columns(); ++c) {
        ASSERT_EQ(own.dqkv.at(t, c), all.dqkv.at(row + t, c)) << s << " " << t;
      }
    }
  }
}

TEST(AttentionBits, HeadsMayLieOnDifferentRanks) {
  const auto device = device::make_cpu_device(1);
  AttentionData all({"", {100}, 4, 2, 16, true, 0.3f}, DType::f32);
  all.forward(*device);
  AttentionForward half = all.forward_arguments();
  // The second group alone, as a rank would hold it.
  testing::TestTensor y(DType::f32, Shape{100, 32});
  for (ConstHeadsView* view : {&half.q_TND, &half.k_TKD, &half.v_TKD}) {
    view->data += view->group_stride * bytes_of(DType::f32);
    view->num_heads /= 2;
  }
  half.y_TND = heads(y.view(), 2, 16);
  half.lse_NT = View();
  half.dropout.head_begin += 2;
  Exec exec(*device);
  attention_forward(exec, half);
  for (int64_t t = 0; t < 100; ++t) {
    for (int64_t c = 0; c < 32; ++c) ASSERT_EQ(y.at(t, c), all.y.at(t, 32 + c));
  }
}

TEST(AttentionTrace, RecordsExactPairsAndAllocatesWhatTheRealRunDoes) {
  for (const bool materialised : {false, true}) {
    AttentionData data({"", {100, 65}, 4, 2, 64}, DType::f32);
    data.materialised = materialised;
    const auto real = device::make_cpu_device(3);
    const auto traced = device::make_trace_device(real->target());
    device::Recorder recorder;
    traced->set_recorder(&recorder);
    for (device::Device* on : {real.get(), traced.get()}) {
      data.forward(*on);
      data.backward(*on);
      EXPECT_EQ(on->arena(device::MemoryClass::workspace).in_use(), 0);
    }
    EXPECT_EQ(traced->arena(device::MemoryClass::workspace).high_water(),
              real->arena(device::MemoryClass::workspace).high_water());
    ASSERT_EQ(recorder.records().size(), 2u);
    const double pairs = 100 * 101 / 2 + 65 * 66 / 2;
    EXPECT_EQ(recorder.records()[0].work.flops, 4 * 64 * 4 * pairs);
    EXPECT_EQ(recorder.records()[1].work.flops, 10 * 64 * 4 * pairs);
  }
}

TEST(AttentionTrace, StreamingMemoryGrowsLinearly) {
  const auto high_water = [](int32_t length) {
    const auto traced = device::make_trace_device({device::DeviceKind::cpu, device::Isa::avx2, 2});
    const std::vector<int32_t> cu{0, length};
    // Addresses of a traced run are never followed.
    const auto heads_at = [&](int64_t n) {
      return HeadsView{
          reinterpret_cast<std::byte*>(64), DType::f32, length, n, 64, n * 64, 64, 1, 64};
    };
    const View lse(reinterpret_cast<std::byte*>(64), DType::f32, Shape{2, length});
    Exec exec(*traced);
    attention_forward(exec, {.sequences = {.cu_seqlens = cu, .cu_seqlens_device = {}},
                             .q_TND = heads_at(2),
                             .k_TKD = heads_at(2),
                             .v_TKD = heads_at(2),
                             .y_TND = heads_at(2),
                             .lse_NT = lse,
                             .probabilities = {},
                             .dropout = {}});
    attention_backward(exec, {.sequences = {.cu_seqlens = cu, .cu_seqlens_device = {}},
                              .q_TND = heads_at(2),
                              .k_TKD = heads_at(2),
                              .v_TKD = heads_at(2),
                              .y_TND = heads_at(2),
                              .dy_TND = heads_at(2),
                              .lse_NT = lse,
                              .probabilities = {},
                              .dq_TND = heads_at(2),
                              .dk_TKD = heads_at(2),
                              .dv_TKD = heads_at(2),
                              .dropout = {}});
    return static_cast<double>(traced->arena(device::MemoryClass::workspace).high_water());
  };
  EXPECT_LT(high_water(1 << 17), 8.1 * high_water(1 << 14));
}

}  // namespace
}  // namespace megalith::kernels
