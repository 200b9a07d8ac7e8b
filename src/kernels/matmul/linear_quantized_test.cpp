// SPDX-License-Identifier: Apache-2.0
// Products with weights in blocks: the bits of the f32 chain over the widened weights.
#include "kernels/matmul/linear.h"
#include "kernels/matmul/linear_stated.h"
#include "kernels/matmul/quantized_layer_cases.h"

namespace megalith::kernels {
namespace {

using namespace matmul;  // NOLINT: cases and stated chains
using testing::TestTensor;

TEST(LinearQuantized, HasTheBitsOfWidenedWeightsOnEveryDevice) {
  for (const LinearCase& c : kTiledCases)
    for (const Format format : kBlockFormats)
      for (const TiledTypes& types : kXY)
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
  for (const LinearCase& c : kTiledCases) {
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
  for (const Format format : kBlockFormats)
    for (const TiledTypes& types : kXY)
      expect_fused_is_the_composition(QuantizedLayer({5, 320, 37, 2}, format, types));
}

TEST(LinearQuantized, BitsDoNotDependOnHowRowsAreCutIntoCalls) {
  for (const Format format : kBlockFormats)
    for (const TiledTypes& types : {kXY[0], kXY[1]})
      expect_the_bits_of_parts(QuantizedLayer({75, 352, 45, 1}, format, types));
}

TEST(LinearQuantized, TraceAllocatesAndRecordsWhatTheRunDoes) {
  for (const LinearCase& c : {LinearCase{1, 96, 64}, LinearCase{64, 1600, 96, 2}})
    for (const Format format : kBlockFormats)
      expect_traced_as_run(QuantizedLayer(c, format, kXY[1]));
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
    const std::string message = refusal_of(l, change);
    EXPECT_NE(message.find(text), std::string::npos) << message;
  };
  mentions("5 equal shards", [](LinearForward& f) { f.k_shards = 5; });
  mentions("not [20, 192]", [](LinearForward& f) { f.w_OI.shape = Shape{20, 160}; });
  mentions("not the tiles", [](LinearForward& f) { f.w_OI.format = Format::q4_0; });
  mentions("not the tiles", [&](LinearForward& f) { f.w_OI.view = l.x; });
  mentions("bias_O",
           [&](LinearForward& f) { f.bias_O = ConstView(l.matrix.data(), DType::i8, Shape{20}); });

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
