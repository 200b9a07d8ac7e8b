// SPDX-License-Identifier: Apache-2.0
// Products with weights in fp8: the chain of the codes' numbers, f32 or bf16 as x is, and the scale
// of a row behind the sum.
#include <cstring>

#include "kernels/elementwise/pointwise.h"
#include "kernels/matmul/code_bytes.h"
#include "kernels/matmul/fp8_rows.h"
#include "kernels/matmul/linear_products.h"
#include "kernels/matmul/linear_stated.h"
#include "kernels/matmul/tiled_layer.h"

namespace megalith::kernels {
namespace {

using namespace matmul;  // NOLINT: cases and stated chains
using testing::TestTensor;

/// Any code but NaN, and scales of any size.
struct Fp8Layer : TiledLayer {
  Fp8Layer(const LinearCase& shape, const TiledTypes& types)
      : TiledLayer(shape, Format::fp8, types) {
    for (int64_t i = 0; i < c.outputs * c.inputs; ++i) {
      const auto code = static_cast<uint8_t>(philox(2, static_cast<uint64_t>(i), 0)[0]);
      set_code(i, (code & 0x7f) == 0x7f ? 0 : code);
    }
    for (int64_t o = 0; o < c.outputs; ++o)
      set_scale(o, static_cast<float>(std::abs(normal(3, static_cast<uint64_t>(o)))) * 0x1p-7F);
  }
  void set_code(int64_t i, uint8_t code) {
    matrix[static_cast<size_t>(i)] = static_cast<std::byte>(code);
  }
  void set_scale(int64_t row, float scale) {
    std::memcpy(matrix.data() + c.outputs * c.inputs + row * 4, &scale, sizeof scale);
  }
  float scale(int64_t row) const {
    float value;
    std::memcpy(&value, matrix.data() + c.outputs * c.inputs + row * 4, sizeof value);
    return value;
  }
  double number(int64_t i) const {
    return static_cast<double>(
        to_f32(f8_e4m3_t{std::to_integer<uint8_t>(matrix[static_cast<size_t>(i)])}));
  }
  /// The plain layer with the codes as bf16 numbers, and sums in f32.
  Layer numbers() const {
    Layer plain(c, {x.dtype(), DType::bf16, DType::f32});
    plain.x.fill([&](int64_t i) { return x.at(i); });
    plain.w.fill([&](int64_t i) { return number(i); });
    return plain;
  }
  /// round(scale x fl32 sum), of sums in f32.
  TestTensor scaled(const TestTensor& sums) const {
    TestTensor expected = y;
    expected.fill([&](int64_t i) {
      return static_cast<double>(static_cast<float>(sums.at(i)) * scale(i % c.outputs));
    });
    return expected;
  }
  void expect_sums_of_numbers_everywhere() {
    Layer plain = numbers();
    const auto device = device::make_cpu_device(1);
    plain.run(*device, Operation::forward, "exact");
    const TestTensor expected = scaled(plain.y);
    for (const TestDevice& on : test_devices()) {
      Fp8Layer actual = *this;
      actual.run(*on.device, "exact");
      testing::expect_same_bits(actual.y, expected, name(on.name));
    }
  }
};

TEST(LinearFp8, LookUpsHoldTheNumberOfEveryCode) {
  for (unsigned code = 0; code < 128; ++code) {
    const float number = to_f32(f8_e4m3_t{static_cast<uint8_t>(code)});
    EXPECT_EQ(bf16_of_code(code), to_bf16(number).bits) << code;
    EXPECT_EQ(kCodeBytes.low[code] | kCodeBytes.high[code] << 8, to_bf16(number).bits) << code;
  }
}

TEST(LinearFp8, HasTheBitsOfTheNumbersOnEveryDevice) {
  for (const LinearCase& c : kTiledCases)
    for (const TiledTypes& types : kXY) Fp8Layer(c, types).expect_sums_of_numbers_everywhere();
}

TEST(LinearFp8, IsTheStatedChain) {
  for (const LinearCase& c : {LinearCase{1, 96, 33, 3}, LinearCase{20, 64, 18, 4}}) {
    for (const TiledTypes& types : kXY) {
      Fp8Layer l(c, types);
      const Layer plain = l.numbers();
      const StatedElement stated(plain, Operation::forward, c.k_shards);
      TestTensor sums = plain.y;
      sums.fill(
          [&](int64_t i) { return static_cast<double>(stated(i / c.outputs, i % c.outputs)); });
      const TestTensor expected = l.scaled(sums);
      const auto device = device::make_cpu_device(2);
      l.run(*device, "exact");
      testing::expect_same_bits(l.y, expected, l.name("two threads"));
    }
  }
}

/// Every code alone in every lane and column of a tile, as panels are packed and by both ways to
/// look codes up, whatever this CPU would take. Rows with a code that is not a number are the last.
TEST(LinearFp8, EveryCodeIsWidenedAlikeByBothLookUps) {
  constexpr int64_t kCodes = 256, kNumbers = kCodes * kGroupRows, kColumns = kBlockColumns;
  for (const TiledTypes& types : kXY) {
    Fp8Layer l({kColumns, kColumns, kNumbers + 2 * kGroupRows}, types);
    l.x.fill([](int64_t i) { return i / kColumns == i % kColumns ? 1.0 : 0.0; });
    for (int64_t o = 0; o < l.c.outputs; ++o) {
      for (int64_t i = 0; i < kColumns; ++i) {
        const auto code = static_cast<uint8_t>(o / kGroupRows + 37 * i);
        const bool is_number = (code & 0x7f) != 0x7f && o < kNumbers;
        l.set_code(o * kColumns + i, is_number ? code : 0);
      }
    }
    for (int64_t lane = 0; lane < kGroupRows; ++lane) {
      l.set_code((kNumbers + lane) * kColumns + 2 * lane, 0x7f);
      l.set_code((kNumbers + kGroupRows + lane) * kColumns + 2 * lane + 1, 0xff);
    }
    TestTensor expected = l.y;
    expected.fill([&](int64_t i) {
      const int64_t t = i / l.c.outputs, o = i % l.c.outputs;
      return o < kNumbers
                 ? static_cast<double>(static_cast<float>(l.number(o * kColumns + t)) * l.scale(o))
                 : static_cast<double>(NAN);
    });
    const auto expect_rows = [&](const Fp8Layer& actual, int64_t first, int64_t rows,
                                 const std::string& what) {
      for (int64_t i = first * l.c.outputs; i < (first + rows) * l.c.outputs; ++i) {
        if (std::isnan(expected.at(i))) {
          ASSERT_TRUE(std::isnan(actual.y.at(i))) << what << " " << i;
        } else {
          ASSERT_EQ(actual.y.at(i), expected.at(i)) << what << " " << i;
        }
      }
    };
    for (const TestDevice& on : test_devices()) {
      if (on.device->is_trace() || !on.device->is_host_memory()) continue;
      Fp8Layer packed = l;
      packed.run(*on.device, "exact");
      expect_rows(packed, 0, kColumns, l.name(on.name));
      const device::Isa isa = on.device->target().isa;
      for (const bool wide : {false, true}) {
        if (wide && !has_wide_lookup(isa)) continue;
        Fp8Layer few = l;
        for (const int64_t first : {0, 16}) {
          LinearForward f = few.forward();
          f.x_TI = f.x_TI.rows(first, 16);
          f.y_TO = f.y_TO.rows(first, 16);
          const Product product = product_of(f);
          ASSERT_TRUE(is_few_fp8(product));
          std::vector<float> scratch(static_cast<size_t>(fp8_scratch_bytes(product, isa) / 4 + 16));
          auto* at = reinterpret_cast<std::byte*>(scratch.data());
          at += (64 - reinterpret_cast<uintptr_t>(at) % 64) % 64;
          run_fp8(product, isa, on.device->pool(), at, wide);
          expect_rows(few, first, 16, l.name(on.name) + (wide ? ", wide" : ", narrow"));
        }
      }
    }
  }
}

/// Denormal operands and sums: taken and kept in the f32 chain, zeros in the bf16 chain; and scales
/// that make results denormal.
TEST(LinearFp8, ExtremesAreThoseOfTheNumbersOnEveryDevice) {
  for (const LinearCase& c :
       {LinearCase{1, 352, 70, 1}, LinearCase{6, 1280, 37, 4}, LinearCase{24, 96, 37, 2}}) {
    for (const TiledTypes& types : {kXY[0], kXY[2]}) {
      Fp8Layer l(c, types);
      l.x.fill([&](int64_t i) { return std::ldexp(l.x.at(i), -110 - static_cast<int>(i % 43)); });
      for (int64_t o = 0; o < c.outputs; ++o)
        l.set_scale(o, o % 3 == 0 ? 0x1p-20F : o % 3 == 1 ? 0x1p+30F : 1.0F);
      l.expect_sums_of_numbers_everywhere();
    }
  }
}

TEST(LinearFp8, IsWithinTheDerivedBoundOfTheReference) {
  const auto device = device::make_cpu_device(1);
  for (const LinearCase& c : kTiledCases) {
    Fp8Layer l(c, kXY[0]);
    Fp8Layer reference = l;
    l.run(*device, "exact");
    reference.run(*device, "reference");
    const auto of_sum = l.numbers().bound(*device, Operation::forward);
    const auto bound = [&](int64_t i) {
      return of_sum(i) * static_cast<double>(l.scale(i % c.outputs)) +
             0x1p-23 * std::abs(reference.y.at(i));
    };
    testing::expect_close(l.y, reference.y, bound, l.name("reference"));
  }
}

/// Sums over ranks are scaled when they are complete.
TEST(LinearFp8, ScalingLaterGivesTheSameBits) {
  for (const LinearCase& c : {LinearCase{3, 96, 70}, LinearCase{40, 96, 33}}) {
    for (const TestDevice& on : test_devices()) {
      Fp8Layer whole(c, kXY[2]);
      Fp8Layer parts = whole;
      whole.run(*on.device);
      LinearForward f = parts.forward();
      f.unscaled = true;
      parts.run(*on.device, f);
      Exec exec(*on.device);
      scale(exec, parts.y, row_scales(parts.weight()));
      testing::expect_same_bits(parts.y, whole.y, whole.name(on.name));
    }
  }
}

TEST(LinearFp8, FusedEqualsTheCompositionBitForBit) {
  for (const int64_t rows : {5, 40})
    for (const TiledTypes& types : kXY)
      expect_fused_is_the_composition(Fp8Layer({rows, 320, 37, 2}, types));
}

TEST(LinearFp8, BitsDoNotDependOnHowRowsAreCutIntoCalls) {
  for (const TiledTypes& types : {kXY[0], kXY[1]})
    expect_the_bits_of_parts(Fp8Layer({75, 352, 45, 1}, types));
}

TEST(LinearFp8, TraceAllocatesAndRecordsWhatTheRunDoes) {
  for (const LinearCase& c : {LinearCase{1, 96, 64}, LinearCase{64, 1600, 96, 2}})
    expect_traced_as_run(Fp8Layer(c, kXY[1]));
}

TEST(LinearFp8, WhatDoesNotFitIsRefusedByName) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  Fp8Layer l({2, 96, 20}, kXY[0]);
  EXPECT_EQ(linear_implementations(exec, l.forward()),
            (std::vector<std::string_view>{"exact", "reference"}));
  Exec fast(*device, Numerics::fast);
  EXPECT_EQ(linear_implementations(fast, l.forward()),
            (std::vector<std::string_view>{"exact", "reference"}));
  const auto mentions = [&](const std::string& text, const auto& change) {
    const std::string message = refusal_of(l, change);
    EXPECT_NE(message.find(text), std::string::npos) << message;
  };
  TestTensor scale(DType::f32, {1});
  mentions("of a shard", [](LinearForward& f) { f.k_shards = 48; });
  mentions("not the tiles", [](LinearForward& f) { f.w_OI.format = Format::q8_0; });
  mentions("a scale with weights", [&](LinearForward& f) { f.scale = scale; });
}

}  // namespace
}  // namespace megalith::kernels
