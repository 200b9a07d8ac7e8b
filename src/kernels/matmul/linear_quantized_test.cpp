// SPDX-License-Identifier: Apache-2.0
// Products with weights in q8_0: the block chain of linear.h.
#include <xmmintrin.h>

#include <optional>

#include "device/recorder.h"
#include "kernels/elementwise/activate.h"
#include "kernels/matmul/linear.h"
#include "kernels/matmul/linear_stated.h"

namespace megalith::kernels {
namespace {

using namespace matmul;  // NOLINT: cases and stated chains
using testing::test_devices;
using testing::TestDevice;
using testing::TestTensor;

/// One and more blocks, strips of eight with and without a rest, an odd number of them; one column,
/// one more and one less than vectors have lanes; passes and slabs of rows; shards.
const LinearCase kCases[] = {{0, 32, 5},        {1, 32, 1},       {1, 64, 16},      {1, 96, 33},
                             {1, 4096, 48, 4},  {2, 288, 40},     {3, 128, 15, 4},  {4, 320, 50, 2},
                             {5, 1056, 31},     {8, 256, 17, 8},  {13, 544, 20},    {16, 96, 64, 3},
                             {17, 2112, 35, 2}, {33, 160, 23, 1}, {70, 544, 37, 1}, {2, 11008, 19}};

struct QuantizedTypes {
  DType x;
  DType y;
};
constexpr QuantizedTypes kXY[] = {{DType::f32, DType::f32},
                                  {DType::bf16, DType::bf16},
                                  {DType::bf16, DType::f32},
                                  {DType::f32, DType::bf16}};

/// A layer whose weights are in q8_0.
struct QuantizedLayer {
  LinearCase c;
  TestTensor x, codes, scales, bias, y, u;

  QuantizedLayer(const LinearCase& shape, const QuantizedTypes& types)
      : c(shape),
        x(types.x, {c.rows, c.inputs}, 3, 1),
        codes(DType::i8, {c.outputs, c.inputs}, 5, 3),
        scales(DType::f16, {c.outputs, c.inputs / kQ8BlockCodes}, 1, 1),
        bias(types.x, {c.outputs}, 0, 1),
        y(types.y, {c.rows, c.outputs}, 2, 1),
        u(types.y, {c.rows, c.outputs}, 1, 0) {
    x.fill_normal(1);
    codes.fill_integers(2, -128, 127);
    scales.fill_normal(3, 0x1p-7);
    bias.fill_normal(4);
  }

  LinearForward forward() {
    return {.x_TI = x,
            .w_OI = Weight(codes.view(), Format::q8_0, scales.view()),
            .y_TO = y,
            .k_shards = c.k_shards};
  }
  void run(device::Device& on, std::string_view only = {}) {
    Exec exec(on);
    exec.only = only;
    linear_forward(exec, forward());
    EXPECT_EQ(exec.workspace.in_use(), 0);
    y.expect_gaps_untouched();
  }
  /// y as the contract states it.
  TestTensor stated() const {
    const Floats xs(x), code(codes), scale(scales);
    TestTensor result = y;
    const bool bf16 = x.dtype() == DType::bf16;
    return result.fill([&](int64_t i) -> double {
      const int64_t t = i / c.outputs, o = i % c.outputs;
      const auto shard = [&](int64_t begin, int64_t end) {
        return stated_blocks(
            bf16, begin, end, [&](int64_t k) { return xs(t, k); },
            [&](int64_t k) { return code(o, k); }, [&](int64_t b) { return scale(o, b); });
      };
      return stated_tree(0, c.k_shards, c.inputs / c.k_shards, shard);
    });
  }
  std::string name(std::string_view device) const {
    return fmt::format("{} {}*q8_0->{} on {}", c.name(), x.dtype(), y.dtype(), device);
  }
  void expect_stated_everywhere() {
    const TestTensor expected = stated();
    for (const TestDevice& on : test_devices()) {
      QuantizedLayer actual = *this;
      actual.run(*on.device, "exact");
      testing::expect_same_bits(actual.y, expected, name(on.name));
    }
  }
};

TEST(LinearQuantized, EveryElementIsTheStatedChainOnEveryDevice) {
  for (const LinearCase& c : kCases)
    for (const QuantizedTypes& types : kXY) QuantizedLayer(c, types).expect_stated_everywhere();
}

/// Denormal operands, chains and accumulators; scales that are denormal, negative or 0; the code
/// without a counterpart.
TEST(LinearQuantized, ExtremesAreAsStatedOnEveryDevice) {
  for (const LinearCase& c : {LinearCase{1, 352, 40, 1}, LinearCase{6, 1280, 37, 4}}) {
    for (const QuantizedTypes& types : kXY) {
      QuantizedLayer l(c, types);
      l.x.fill([&](int64_t i) { return std::ldexp(l.x.at(i), -110 - static_cast<int>(i % 23)); });
      l.codes.fill([&](int64_t i) { return i % 5 == 0 ? -128 : l.codes.at(i) / 16; });
      l.scales.fill([&](int64_t i) {
        const double scale = l.scales.at(i);
        return i % 7 == 0 ? 0 : i % 3 == 0 ? std::ldexp(scale, -11) : scale * 0x1p7;
      });
      l.expect_stated_everywhere();
    }
  }
}

TEST(LinearQuantized, InfinitiesAndNotANumberAreAsStatedAndStayInTheirRowAndColumn) {
  for (const QuantizedTypes& types : kXY) {
    QuantizedLayer l({19, 288, 40}, types);
    l.x.set(1, 7, NAN);
    l.x.set(4, 280, INFINITY);
    l.x.set(5, 31, -INFINITY);
    l.codes.set(3, 280, 0);  // infinity x 0
    l.scales.set(9, 3, NAN);
    l.scales.set(11, 8, INFINITY);
    l.scales.set(12, 8, 0);  // 0 x infinity
    l.expect_stated_everywhere();
    const TestTensor result = l.stated();
    for (int64_t i = 0; i < result.size(); ++i) {
      const int64_t t = i / 40, o = i % 40;
      const bool is_nan = t == 1 || o == 9 || (t == 4 && (o == 3 || o == 12));
      const bool may_be = t == 4 || t == 5 || o == 11;
      if (may_be && !is_nan) continue;
      ASSERT_EQ(std::isnan(result.at(i)), is_nan) << t << " " << o;
    }
  }
}

/// A chain of 32 roundings a block, one more for each block, few for the shards and the result's
/// own:
///   (32 + I / 32 + 8) u sum |x d c| + u_result |sum|
TEST(LinearQuantized, IsWithinTheDerivedBoundOfTheReference) {
  const auto device = device::make_cpu_device(1);
  for (const LinearCase& c : kCases) {
    for (const QuantizedTypes& types : kXY) {
      QuantizedLayer l(c, types);
      l.run(*device, "exact");
      const auto reference = [&](bool magnitudes) {
        QuantizedLayer r = l;
        r.x = l.x.as(DType::f64);
        r.y = l.y.as(DType::f64);
        if (magnitudes) {
          for (TestTensor* t : {&r.x, &r.codes, &r.scales})
            t->fill([&](int64_t i) { return std::min(127.0, std::abs(t->at(i))); });
        }
        r.run(*device, "reference");
        return r.y;
      };
      const TestTensor sums = reference(true);
      const double roundings = 40 + static_cast<double>(c.inputs) / kQ8BlockCodes;
      const double unit = roundings * 0x1p-24 + testing::unit_roundoff(types.y);
      testing::expect_close(
          l.y, reference(false), [&](int64_t i) { return (1.1 + 1.0 / 127) * unit * sums.at(i); },
          l.name("reference"));
    }
  }
}

TEST(LinearQuantized, FusedEqualsTheCompositionBitForBit) {
  for (const QuantizedTypes& types : kXY) {
    for (const TestDevice& on : test_devices()) {
      Exec exec(*on.device);
      QuantizedLayer fused({5, 320, 37, 2}, types);
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
      // The bias is added in f32 to the sum that is rounded without it.
      if (types.y != DType::f32) continue;
      QuantizedLayer plain = parts;
      plain.run(*on.device);
      for (int64_t i = 0; i < plain.y.size(); ++i) {
        const auto sum = static_cast<float>(plain.y.at(i));
        ASSERT_EQ(parts.u.at(i), sum + static_cast<float>(plain.bias.at(i % 37)));
      }
    }
  }
}

TEST(LinearQuantized, BitsDoNotDependOnHowRowsAreCutIntoCalls) {
  for (const QuantizedTypes& types : {kXY[0], kXY[1]}) {
    for (const TestDevice& on : test_devices()) {
      QuantizedLayer whole({75, 352, 45, 1}, types);
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

TEST(LinearQuantized, DenormalsAreWhatTheyWereAfterACall) {
  const unsigned before = _mm_getcsr();
  for (const TestDevice& on : test_devices()) {
    QuantizedLayer({3, 320, 20}, kXY[1]).run(*on.device, "exact");
    on.device->pool().run([&](int) { EXPECT_EQ(_mm_getcsr() & 0xffc0u, before & 0xffc0u); });
  }
}

TEST(LinearQuantized, TraceAllocatesAndRecordsWhatTheRunDoes) {
  for (const LinearCase& c : {LinearCase{1, 96, 64}, LinearCase{64, 1600, 96, 2}}) {
    QuantizedLayer l(c, kXY[1]);
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
              2 * c.rows * c.inputs + c.outputs * c.inputs / kQ8BlockCodes * kQ8BlockBytes);
  }
}

TEST(LinearQuantized, WhatDoesNotFitIsRefusedByName) {
  const auto device = device::make_cpu_device(1);
  Exec exec(*device, Numerics::fast);
  QuantizedLayer l({2, 192, 20}, kXY[0]);
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
  const auto of_forward = [&](const auto& change) {
    return refusal([&] {
      LinearForward f = l.forward();
      change(f);
      linear_forward(exec, f);
    });
  };
  EXPECT_EQ(of_forward([](LinearForward&) {}), "");
  EXPECT_EQ(of_forward([](LinearForward& f) { f.k_shards = 3; }), "");
  const std::string shards = of_forward([](LinearForward& f) { f.k_shards = 4; });
  EXPECT_NE(shards.find("192 inputs in 4 shards"), std::string::npos) << shards;
  const auto mentions = [&](const std::string& text, const auto& change) {
    const std::string message = of_forward(change);
    EXPECT_NE(message.find(text), std::string::npos) << message;
  };
  mentions("scales of w_OI", [](LinearForward& f) { f.w_OI.scales = {}; });
  mentions("scales of w_OI", [&](LinearForward& f) { f.w_OI.scales = l.x; });
  mentions("w_OI in q8_0", [&](LinearForward& f) { f.w_OI.view = l.x; });
  mentions("bias_O", [&](LinearForward& f) {
    f.bias_O = ConstView(l.codes.view().data(), DType::i8, Shape{20});
  });

  TestTensor dx(DType::f32, {2, 192}), dw(DType::i8, {20, 192});
  const std::string backward = refusal(
      [&] { linear_backward_input(exec, {.dy_TO = l.y, .w_OI = l.forward().w_OI, .dx_TI = dx}); });
  EXPECT_NE(backward.find("q8_0"), std::string::npos) << backward;
  const std::string gradient =
      refusal([&] { linear_backward_weight(exec, {.dy_TO = l.y, .x_TI = l.x, .dw_OI = dw}); });
  EXPECT_NE(gradient.find("dw_OI is i8"), std::string::npos) << gradient;
}

}  // namespace
}  // namespace megalith::kernels
