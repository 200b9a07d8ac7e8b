// SPDX-License-Identifier: Apache-2.0
// Products with weights in fp8: the chain of the codes' numbers, f32 or bf16 as x is, and the scale
// of a row behind the sum.
#include <array>
#include <cstring>

#include "device/recorder.h"
#include "kernels/elementwise/activate.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/matmul/code_bytes.h"
#include "kernels/matmul/fp8_rows.h"
#include "kernels/matmul/linear_layer.h"
#include "kernels/matmul/linear_products.h"
#include "kernels/matmul/linear_stated.h"
#include "tensor/blocks.h"

namespace megalith::kernels {
namespace {

using namespace matmul;  // NOLINT: cases and stated chains
using testing::test_devices;
using testing::TestDevice;
using testing::TestTensor;

/// One and more blocks; rows of weights less and more than groups of 16 and strips of four groups;
/// few rows of x in one pass and in several, and so many that panels are packed; shards that end
/// with a block and inside of one; several blocks of k.
const LinearCase kCases[] = {{0, 32, 5},       {1, 32, 1},        {1, 64, 16},      {1, 96, 33},
                             {1, 4096, 48, 4}, {1, 2112, 195},    {2, 288, 40},     {3, 128, 15, 4},
                             {4, 320, 50, 2},  {5, 1056, 31},     {8, 256, 17, 8},  {13, 544, 20},
                             {16, 96, 64, 3},  {17, 2112, 35, 2}, {33, 160, 23, 1}, {70, 544, 97},
                             {2, 11008, 19},   {3, 96, 40, 8},    {1, 160, 36, 20}, {19, 96, 37, 8},
                             {40, 1600, 50, 5}};

struct XY {
  DType x, y;
};
constexpr XY kXY[] = {{DType::f32, DType::f32},
                      {DType::bf16, DType::bf16},
                      {DType::bf16, DType::f32},
                      {DType::f32, DType::bf16}};

/// Any code but NaN, and scales of any size; `matrix` as a file has it.
struct Fp8Layer {
  LinearCase c;
  std::vector<std::byte> matrix, tiles;
  TestTensor x, bias, y, u;

  Fp8Layer(const LinearCase& shape, const XY& types)
      : c(shape),
        matrix(static_cast<size_t>(matrix_bytes(Format::fp8, c.outputs, c.inputs))),
        x(types.x, {c.rows, c.inputs}, 3, 1),
        bias(types.x, {c.outputs}, 0, 1),
        y(types.y, {c.rows, c.outputs}, 2, 1),
        u(types.y, {c.rows, c.outputs}, 1, 0) {
    x.fill_normal(1);
    bias.fill_normal(4);
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
  Weight weight() {
    const Shape shape{c.outputs, c.inputs}, stored = stored_shape(Format::fp8, shape);
    // A start that no vector is aligned to.
    tiles.assign(static_cast<size_t>(stored.num_elements() + 8), std::byte{});
    to_tiles(Format::fp8, matrix, c.outputs, c.inputs, std::span(tiles).subspan(8));
    return {ConstView(tiles.data() + 8, DType::u8, stored), Format::fp8, shape};
  }
  LinearForward forward() {
    return {.x_TI = x, .w_OI = weight(), .y_TO = y, .k_shards = c.k_shards};
  }
  void run(device::Device& on, std::string_view only = {}, bool unscaled = false) {
    Exec exec(on);
    exec.only = only;
    LinearForward f = forward();
    f.unscaled = unscaled;
    linear_forward(exec, f);
    EXPECT_EQ(exec.workspace.in_use(), 0);
    y.expect_gaps_untouched();
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
  std::string name(std::string_view device) const {
    return fmt::format("{} {}*fp8->{} on {}", c.name(), x.dtype(), y.dtype(), device);
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
  for (const LinearCase& c : kCases)
    for (const XY& types : kXY) Fp8Layer(c, types).expect_sums_of_numbers_everywhere();
}

TEST(LinearFp8, IsTheStatedChain) {
  for (const LinearCase& c : {LinearCase{1, 96, 33, 3}, LinearCase{20, 64, 18, 4}}) {
    for (const XY& types : kXY) {
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

/// Both ways to look codes up, whatever this CPU would take; all codes in every place of a step.
TEST(LinearFp8, EveryCodeIsWidenedAlikeByBothLookUps) {
  for (const XY& types : kXY) {
    Fp8Layer l({2, 1024, 48}, types);
    l.x.fill([](int64_t i) { return i % 7 == 0 ? 1.0 : 0.0; });
    for (int64_t i = 0; i < l.c.outputs * l.c.inputs; ++i)
      l.set_code(i, static_cast<uint8_t>(i * 5 + i / 1024));
    Layer plain = l.numbers();
    const auto device = device::make_cpu_device(1);
    plain.run(*device, Operation::forward, "exact");
    const TestTensor expected = l.scaled(plain.y);
    for (const TestDevice& on : test_devices()) {
      if (on.device->is_trace() || !on.device->is_host_memory()) continue;
      const device::Isa isa = on.device->target().isa;
      for (const bool wide : {false, true}) {
        if (wide && !has_wide_lookup(isa)) continue;
        Fp8Layer actual = l;
        const LinearForward f = actual.forward();
        const Product product = product_of(f);
        std::vector<float> scratch(static_cast<size_t>(fp8_scratch_bytes(product, isa) / 4 + 16));
        auto* at = reinterpret_cast<std::byte*>(scratch.data());
        at += (64 - reinterpret_cast<uintptr_t>(at) % 64) % 64;
        run_fp8(product, isa, on.device->pool(), at, wide);
        for (int64_t i = 0; i < expected.size(); ++i) {
          if (std::isnan(expected.at(i))) {
            ASSERT_TRUE(std::isnan(actual.y.at(i))) << on.name << " " << wide << " " << i;
          } else {
            ASSERT_EQ(actual.y.at(i), expected.at(i)) << on.name << " " << wide << " " << i;
          }
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
    for (const XY& types : {kXY[0], kXY[2]}) {
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
  for (const LinearCase& c : kCases) {
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
      parts.run(*on.device, {}, true);
      Exec exec(*on.device);
      scale(exec, parts.y, row_scales(parts.weight()));
      testing::expect_same_bits(parts.y, whole.y, whole.name(on.name));
    }
  }
}

TEST(LinearFp8, FusedEqualsTheCompositionBitForBit) {
  for (const int64_t rows : {5, 40}) {
    for (const XY& types : kXY) {
      for (const TestDevice& on : test_devices()) {
        Exec exec(*on.device);
        Fp8Layer fused({rows, 320, 37, 2}, types);
        Fp8Layer parts = fused;
        LinearForward f = fused.forward();
        f.bias_O = fused.bias;
        f.activation = Activation::gelu_erf;
        f.pre_activation_TO = fused.u;
        linear_forward(exec, f);
        f = parts.forward();
        f.bias_O = parts.bias;
        f.y_TO = parts.u;
        linear_forward(exec, f);
        activation_forward(exec, parts.u, parts.y, Activation::gelu_erf);
        testing::expect_same_bits(fused.u, parts.u, parts.name(on.name) + " u");
        testing::expect_same_bits(fused.y, parts.y, parts.name(on.name));
      }
    }
  }
}

TEST(LinearFp8, BitsDoNotDependOnHowRowsAreCutIntoCalls) {
  for (const XY& types : {kXY[0], kXY[1]}) {
    for (const TestDevice& on : test_devices()) {
      Fp8Layer whole({75, 352, 45, 1}, types);
      Fp8Layer parts = whole;
      whole.run(*on.device);
      Exec exec(*on.device);
      int64_t begin = 0;
      for (const int64_t count : {1, 0, 3, 8, 16, 13, 34}) {
        LinearForward f = parts.forward();
        f.x_TI = f.x_TI.rows(begin, count);
        f.y_TO = f.y_TO.rows(begin, count);
        linear_forward(exec, f);
        begin += count;
      }
      ASSERT_EQ(begin, whole.c.rows);
      testing::expect_same_bits(parts.y, whole.y, whole.name(on.name));
    }
  }
}

TEST(LinearFp8, TraceAllocatesAndRecordsWhatTheRunDoes) {
  for (const LinearCase& c : {LinearCase{1, 96, 64}, LinearCase{64, 1600, 96, 2}}) {
    Fp8Layer l(c, kXY[1]);
    const auto real = device::make_cpu_device(3);
    const auto trace = device::make_trace_device(real->target());
    device::Recorder recorder;
    trace->set_recorder(&recorder);
    l.run(*real);
    l.run(*trace);
    const auto high_water = [](device::Device& d) {
      return d.arena(device::MemoryClass::workspace).high_water();
    };
    EXPECT_EQ(high_water(*trace), high_water(*real));
    const device::Work total = recorder.total();
    EXPECT_EQ(total.flops, 2.0 * static_cast<double>(c.rows * c.inputs * c.outputs));
    EXPECT_EQ(total.bytes_read,
              2 * c.rows * c.inputs + matrix_bytes(Format::fp8, c.outputs, c.inputs));
  }
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
    LinearForward f = l.forward();
    change(f);
    try {
      linear_forward(exec, f);
      ADD_FAILURE() << "not refused: " << text;
    } catch (const InternalError& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  TestTensor scale(DType::f32, {1});
  mentions("of a shard", [](LinearForward& f) { f.k_shards = 48; });
  mentions("not the tiles", [](LinearForward& f) { f.w_OI.format = Format::q8_0; });
  mentions("a scale with weights", [&](LinearForward& f) { f.scale = scale; });
}

}  // namespace
}  // namespace megalith::kernels
