// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/dot8.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "kernels/matmul/linear_stated.h"
#include "kernels/matmul/quantized_layer_cases.h"

namespace megalith::kernels {
namespace {

using namespace matmul;  // NOLINT: the layer
using testing::TestTensor;

/// One and more blocks and groups; sets of rows that are full and not, in one slab and in several;
/// shards, which are not read.
const LinearCase kCases[] = {{1, 32, 1},        {1, 64, 16},  {1, 96, 100},  {1, 1056, 33},
                             {2, 288, 70},      {3, 128, 15}, {4, 320, 50},  {5, 96, 31, 3},
                             {6, 256, 17},      {7, 64, 40},  {13, 544, 20}, {40, 8192, 18},
                             {130, 2112, 35, 2}};

struct Coded {
  float scale = 0;
  int codes[kBlockColumns];
};
Coded coded(const TestTensor& x, int64_t row, int64_t block) {
  Coded c;
  float magnitude = 0;
  for (int64_t i = 0; i < kBlockColumns; ++i)
    magnitude =
        std::max(magnitude, std::fabs(static_cast<float>(x.at(row, block * kBlockColumns + i))));
  const bool is_zero = magnitude < kLeastMagnitude;
  c.scale = is_zero ? 0 : magnitude / 127.0F;
  const float inverse = is_zero ? 0 : 127.0F / magnitude;
  for (int64_t i = 0; i < kBlockColumns; ++i)
    c.codes[i] = static_cast<int>(
        std::nearbyint(static_cast<float>(x.at(row, block * kBlockColumns + i)) * inverse));
  return c;
}

float half_at(const std::byte* at) {
  f16_t half;
  std::memcpy(&half, at, sizeof half);
  return to_f32(half);
}
/// Less what stands for 0.
int code_of(Format format, const std::byte* block, int64_t i) {
  if (format == Format::q8_0) return static_cast<int8_t>(block[2 + i]);
  const std::byte pair = block[(format == Format::q4_1 ? 4 : 2) + i % 16];
  const int code = std::to_integer<int>(i < 16 ? pair & std::byte{15} : pair >> 4);
  return format == Format::q4_0 ? code - 8 : code;
}

/// y as dot8.h states it.
TestTensor stated(const QuantizedLayer& l) {
  TestTensor y = l.y;
  const int64_t blocks = l.c.inputs / kBlockColumns;
  for (int64_t t = 0; t < l.c.rows; ++t) {
    std::vector<Coded> x;
    for (int64_t b = 0; b < blocks; ++b) x.push_back(coded(l.x, t, b));
    for (int64_t o = 0; o < l.c.outputs; ++o) {
      float sum = 0;
      for (int64_t b = 0; b < blocks; ++b) {
        const Coded& c = x[static_cast<size_t>(b)];
        const std::byte* const block = l.matrix.data() + (o * blocks + b) * block_bytes(l.format);
        int dot = 0, codes = 0;
        for (int64_t i = 0; i < kBlockColumns; ++i) {
          dot += code_of(l.format, block, i) * c.codes[i];
          codes += c.codes[i];
        }
        sum = std::fma(static_cast<float>(dot), half_at(block) * c.scale, sum);
        if (has_least(l.format))
          sum = std::fma(half_at(block + 2), c.scale * static_cast<float>(codes), sum);
      }
      y.set(t, o, static_cast<double>(sum));
    }
  }
  return y;
}

/// Devices whose vectors have the instruction; none on some machines.
std::vector<TestDevice> devices() {
  std::vector<TestDevice> all = test_devices();
  std::erase_if(all, [](const TestDevice& on) { return !on.device->target().has_dot8; });
  return all;
}

/// Without the instruction there is nothing to run: such a CPU takes the exact products.
class Dot8Devices : public ::testing::Test {
 protected:
  void SetUp() override {
    if (devices().empty()) GTEST_SKIP() << "this CPU has no dot products of 8 bits";
  }
};

TEST_F(Dot8Devices, EveryElementIsAsStatedOnEveryDevice) {
  for (const LinearCase& c : kCases) {
    for (const Format format : kBlockFormats) {
      for (const TiledTypes& types : kXY) {
        const QuantizedLayer l(c, format, types);
        const TestTensor expected = stated(l);
        for (const TestDevice& on : devices()) {
          QuantizedLayer actual = l;
          actual.run(*on.device, "dot8", Numerics::fast);
          testing::expect_same_bits(actual.y, expected, l.name(on.name));
        }
      }
    }
  }
}

/// Half a step of x in each product, with the roundings of code and scale (127 of 2^-23), and the
/// roundings of both sums of n products:
///   0.5001 sum |w| s + p (n + 16) 2^-23 (sum |w x| + sum |w|)
/// where p is 8 for the two parts of q4_1, which may be larger than what they add up to, else 1.
TEST(Dot8, IsWithinTheDerivedBoundOfExact) {
  const auto on = device::make_cpu_device(1);
  for (const LinearCase& c : kCases) {
    if (c.inputs > 1100 || c.rows > 13) continue;
    for (const Format format : kBlockFormats) {
      QuantizedLayer exact(c, format, kXY[0]);
      const TestTensor fast = stated(exact);  // the bits of every device
      exact.run(*on, "exact");
      const Layer plain = exact.widened();
      const Floats w(plain.w), x(plain.x);
      TestTensor bound = exact.y;
      for (int64_t t = 0; t < c.rows; ++t) {
        std::vector<float> scales;
        for (int64_t b = 0; b < c.inputs / kBlockColumns; ++b)
          scales.push_back(coded(plain.x, t, b).scale);
        for (int64_t o = 0; o < c.outputs; ++o) {
          double steps = 0, products = 0, weights = 0;
          for (int64_t k = 0; k < c.inputs; ++k) {
            const double weight = std::abs(static_cast<double>(w(o, k)));
            steps += weight * static_cast<double>(scales[static_cast<size_t>(k / kBlockColumns)]);
            products += weight * std::abs(static_cast<double>(x(t, k)));
            weights += weight;
          }
          const double parts = has_least(format) ? 8 : 1;
          const double units = static_cast<double>(c.inputs) + 16;
          bound.set(t, o, steps * 0.5001 + parts * units * 0x1p-23 * (products + weights));
        }
      }
      testing::expect_close(
          fast, exact.y, [&](int64_t i) { return bound.at(i); }, exact.name("as stated"));
    }
  }
}

TEST_F(Dot8Devices, TinyAndNotFiniteRowsStayApart) {
  for (const Format format : kBlockFormats) {
    for (const TestDevice& on : devices()) {
      QuantizedLayer l({9, 96, 40}, format, kXY[0]);
      for (int64_t k = 0; k < 96; ++k) l.x.set(2, k, k < 32 ? 0x1p-101 : 0);
      l.x.set(4, 50, INFINITY);
      l.x.set(6, 3, NAN);
      l.x.set(7, 95, -INFINITY);
      l.run(*on.device, "dot8", Numerics::fast);
      for (int64_t i = 0; i < l.y.size(); ++i) {
        const int64_t t = i / 40;
        if (t == 2) {
          ASSERT_EQ(l.y.at(i), 0);
        }
        ASSERT_EQ(std::isfinite(l.y.at(i)), t != 4 && t != 6 && t != 7) << t;
        if (t == 6) {
          ASSERT_TRUE(std::isnan(l.y.at(i)));
        }
      }
    }
  }
}

TEST_F(Dot8Devices, BiasAndActivationAreThoseOfTheSum) {
  for (const TestDevice& on : devices()) {
    Exec exec(*on.device, Numerics::fast);
    exec.only = "dot8";
    QuantizedLayer l({5, 64, 37}, Format::q8_0, kXY[0]), plain = l;
    plain.run(*on.device, "dot8", Numerics::fast);
    LinearForward f = l.forward();
    f.bias_O = l.bias;
    f.activation = Activation::relu;
    f.pre_activation_TO = l.u;
    linear_forward(exec, f);
    for (int64_t i = 0; i < l.y.size(); ++i) {
      const float u = static_cast<float>(plain.y.at(i)) + static_cast<float>(l.bias.at(i % 37));
      ASSERT_EQ(l.u.at(i), u);
      ASSERT_EQ(l.y.at(i), std::max(u, 0.0F));
    }
  }
}

TEST_F(Dot8Devices, TraceAllocatesWhatTheRunDoes) {
  for (const LinearCase& c : {LinearCase{1, 96, 64}, LinearCase{640, 4096, 16}}) {
    for (const TestDevice& on : devices()) {
      QuantizedLayer l(c, Format::q4_0, kXY[1]);
      const auto trace = device::make_trace_device(on.device->target());
      l.run(*on.device, "dot8", Numerics::fast);
      l.run(*trace, "dot8", Numerics::fast);
      const auto high_water = [](device::Device& d) {
        return d.arena(device::MemoryClass::workspace).high_water();
      };
      EXPECT_EQ(high_water(*trace), high_water(*on.device));
      EXPECT_LT(high_water(*trace), 1 << 20);
    }
  }
}

TEST(Dot8, IsForFastNumericsOfBlocksWhereTheCpuHasTheInstruction) {
  const auto names = [](bool has_dot8, Numerics numerics, const LinearForward& f) {
    const auto on = device::make_trace_device({.has_dot8 = has_dot8});
    const Exec exec(*on, numerics);
    return linear_implementations(exec, f);
  };
  QuantizedLayer l({2, 64, 20}, Format::q4_1, kXY[0]);
  Layer plain = l.widened();
  EXPECT_EQ(names(true, Numerics::fast, l.forward()).front(), "dot8");
  EXPECT_EQ(names(false, Numerics::fast, l.forward()).front(), "exact");
  EXPECT_EQ(names(true, Numerics::exact, l.forward()).front(), "exact");
  EXPECT_NE(names(true, Numerics::fast, plain.forward()).front(), "dot8");
}

}  // namespace
}  // namespace megalith::kernels
