// SPDX-License-Identifier: Apache-2.0
// Products with weights in blocks: the bits of the f32 chain over the widened weights.
#include "device/recorder.h"
#include "kernels/elementwise/activate.h"
#include "kernels/matmul/linear.h"
#include "kernels/matmul/linear_stated.h"
#include "kernels/matmul/quantized_layer_cases.h"

namespace megalith::kernels {
namespace {

using namespace matmul;  // NOLINT: cases and stated chains
using testing::TestTensor;

/// One and more blocks; one row of weights, one more and one less than groups of 16 have, several
/// groups at once and a rest; few rows of x in one pass and in several, and so many that panels are
/// packed; shards that end with a block and inside of one; several blocks of k.
const LinearCase kCases[] = {
    {0, 32, 5},       {1, 32, 1},     {1, 64, 16},     {1, 96, 33},       {1, 4096, 48, 4},
    {1, 2112, 195},   {2, 288, 40},   {3, 128, 15, 4}, {4, 320, 50, 2},   {5, 1056, 31},
    {8, 256, 17, 8},  {13, 544, 20},  {16, 96, 64, 3}, {17, 2112, 35, 2}, {33, 160, 23, 1},
    {70, 544, 97, 1}, {2, 11008, 19}, {3, 96, 40, 8},  {1, 160, 36, 20},  {19, 96, 37, 8},
    {40, 1600, 50, 5}};

TEST(LinearQuantized, HasTheBitsOfWidenedWeightsOnEveryDevice) {
  for (const LinearCase& c : kCases)
    for (const Format format : kBlockFormats)
      for (const QuantizedTypes& types : kXY)
        QuantizedLayer(c, format, types).expect_widened_everywhere();
}

TEST(LinearQuantized, IsTheStatedChain) {
  for (const LinearCase& c : {LinearCase{1, 96, 33, 3}, LinearCase{20, 64, 18, 4}}) {
    for (const Format format : kBlockFormats) {
      QuantizedLayer l(c, format, kXY[0]);
      const Layer plain = l.widened();
      const StatedElement stated(plain, Operation::forward, c.k_shards);
      TestTensor expected = l.y;
      expected.fill(
          [&](int64_t i) { return static_cast<double>(stated(i / c.outputs, i % c.outputs)); });
      const auto device = device::make_cpu_device(2);
      l.run(*device, "exact");
      testing::expect_same_bits(l.y, expected, l.name("two threads"));
    }
  }
}

/// Denormal operands and sums; scales that are denormal, negative or 0: zeros have signs.
TEST(LinearQuantized, ExtremesAreThoseOfWidenedWeightsOnEveryDevice) {
  for (const LinearCase& c :
       {LinearCase{1, 352, 70, 1}, LinearCase{6, 1280, 37, 4}, LinearCase{24, 96, 37, 2}}) {
    for (const Format format : kBlockFormats) {
      QuantizedLayer l(c, format, kXY[0]);
      l.x.fill([&](int64_t i) { return std::ldexp(l.x.at(i), -110 - static_cast<int>(i % 43)); });
      for (int64_t b = 0; b < l.num_blocks(); ++b) {
        if (b % 7 == 0) l.set_scale(b, 0);
        if (b % 7 == 1) l.set_scale(b, 0x1p-22);
        if (b % 7 == 2) l.set_scale(b, -65504);
        if (has_least(format) && b % 5 == 0) l.set_least(b, -0.0);
      }
      l.expect_widened_everywhere();
    }
  }
}

TEST(LinearQuantized, InfinitiesAndNotANumberStayInTheirRowAndColumn) {
  for (const Format format : kBlockFormats) {
    for (const int64_t rows : {5, 19}) {
      QuantizedLayer l({rows, 288, 40}, format, kXY[0]);
      l.x.set(1, 7, NAN);
      l.x.set(4, 280, INFINITY);
      l.set_scale(9 * 9 + 3, NAN);
      l.set_scale(11 * 9 + 8, INFINITY);
      l.expect_widened_everywhere();
      const auto device = device::make_cpu_device(1);
      l.run(*device);
      for (int64_t i = 0; i < l.y.size(); ++i) {
        const int64_t t = i / 40, o = i % 40;
        if (t == 1 || o == 9) {
          ASSERT_TRUE(std::isnan(l.y.at(i)));
        } else if (t != 4 && o != 11) {
          ASSERT_TRUE(std::isfinite(l.y.at(i))) << t << " " << o;
        }
      }
    }
  }
}

/// Roundings of a chain, as Layer::bound() counts them.
TEST(LinearQuantized, IsWithinTheDerivedBoundOfTheReference) {
  const auto device = device::make_cpu_device(1);
  for (const LinearCase& c : kCases) {
    for (const Format format : kBlockFormats) {
      QuantizedLayer l(c, format, kXY[0]);
      QuantizedLayer reference = l;
      l.run(*device, "exact");
      reference.run(*device, "reference");
      testing::expect_close(l.y, reference.y, l.widened().bound(*device, Operation::forward),
                            l.name("reference"));
    }
  }
}

TEST(LinearQuantized, FusedEqualsTheCompositionBitForBit) {
  for (const Format format : kBlockFormats) {
    for (const QuantizedTypes& types : kXY) {
      for (const TestDevice& on : test_devices()) {
        Exec exec(*on.device);
        QuantizedLayer fused({5, 320, 37, 2}, format, types);
        QuantizedLayer parts = fused;
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

TEST(LinearQuantized, BitsDoNotDependOnHowRowsAreCutIntoCalls) {
  for (const Format format : kBlockFormats) {
    for (const QuantizedTypes& types : {kXY[0], kXY[1]}) {
      for (const TestDevice& on : test_devices()) {
        QuantizedLayer whole({75, 352, 45, 1}, format, types);
        QuantizedLayer parts = whole;
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
}

TEST(LinearQuantized, TraceAllocatesAndRecordsWhatTheRunDoes) {
  for (const LinearCase& c : {LinearCase{1, 96, 64}, LinearCase{64, 1600, 96, 2}}) {
    for (const Format format : kBlockFormats) {
      QuantizedLayer l(c, format, kXY[1]);
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
      EXPECT_EQ(total.bytes_read, 2 * c.rows * c.inputs + l.num_blocks() * block_bytes(format));
    }
  }
}

TEST(LinearQuantized, WhatDoesNotFitIsRefusedByName) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device);
  QuantizedLayer l({2, 192, 20}, Format::q8_0, kXY[0]);
  EXPECT_EQ(linear_implementations(exec, l.forward()),
            (std::vector<std::string_view>{"exact", "reference"}));
  const auto refusal = [&](const auto& call) -> std::string {
    try {
      call();
    } catch (const InternalError& error) {
      return error.what();
    }
    return {};
  };
  const auto mentions = [&](const std::string& text, const auto& change) {
    const std::string message = refusal([&] {
      LinearForward f = l.forward();
      change(f);
      linear_forward(exec, f);
    });
    EXPECT_NE(message.find(text), std::string::npos) << message;
  };
  mentions("5 equal shards", [](LinearForward& f) { f.k_shards = 5; });
  mentions("not [20, 192]", [](LinearForward& f) { f.w_OI.shape = Shape{20, 160}; });
  mentions("not the tiles", [](LinearForward& f) { f.w_OI.format = Format::q4_0; });
  mentions("not the tiles", [&](LinearForward& f) { f.w_OI.view = l.x; });
  mentions("bias_O",
           [&](LinearForward& f) { f.bias_O = ConstView(l.blocks.data(), DType::i8, Shape{20}); });

  TestTensor dx(DType::f32, {2, 192}), dw(DType::i8, {20, 192});
  const std::string backward = refusal(
      [&] { linear_backward_input(exec, {.dy_TO = l.y, .w_OI = l.weight(), .dx_TI = dx}); });
  EXPECT_NE(backward.find("q8_0"), std::string::npos) << backward;
  const std::string gradient =
      refusal([&] { linear_backward_weight(exec, {.dy_TO = l.y, .x_TI = l.x, .dw_OI = dw}); });
  EXPECT_NE(gradient.find("dw_OI is i8"), std::string::npos) << gradient;
}

}  // namespace
}  // namespace megalith::kernels
