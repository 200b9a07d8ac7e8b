// SPDX-License-Identifier: Apache-2.0
// The emulation of Hopper's tensor cores against sums that an H100 and an H200 gave, bit for bit
// (bench/gpu/tensor_cores.py; the two cards agreed in all of them).
#include "golden/tensor_core_cases.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "golden/reference_file.h"
#include "kernels/narrow/scaled_product.h"

namespace megalith::golden {
namespace {

constexpr uint64_t kRows = 64, kColumns = 8;
// Pairs in the order in which seeds were dealt.
constexpr int kPairs[][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}};

bool are_same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

/// Row r's sum in column r % 8 of a tile, as wgmma after wgmma adds it up.
float emulated(const CoreFormat& fa, const CoreFormat& fb, int distribution, uint64_t seed,
               uint64_t row, uint64_t length) {
  const uint64_t column = row % kColumns;
  std::vector<float> a = core_values(fa, distribution, 3 * seed, row * length, length);
  std::vector<float> b = core_values(fb, distribution, 3 * seed + 1, column * length, length);
  if (distribution == 10 && row < 8) a.assign(length, -0.0f);
  if (distribution == 10 && column == 0) b.assign(length, 0.0f);
  float sum = core_start(distribution, 3 * seed + 2, row * kColumns + column);
  const auto group = static_cast<uint64_t>(fa.how.group);
  for (uint64_t k = 0; k < length; k += group) {
    sum = core_sum(std::span(a).subspan(k, group), fa.operand, std::span(b).subspan(k, group),
                   fb.operand, sum, fa.how);
  }
  return sum;
}

TEST(TensorCore, InstructionsGiveWhatHopperGave) {
  const ReferenceFile file("tensor_core", "narrow");
  int compared = 0;
  for (uint64_t pair = 0; pair < std::size(kPairs); ++pair) {
    const CoreFormat &fa = kCoreFormats[kPairs[pair][0]], &fb = kCoreFormats[kPairs[pair][1]];
    for (int distribution = 0; distribution < kCoreDistributions; ++distribution) {
      for (const bool chain : {false, true}) {
        const uint64_t seed = 1000 * pair + 10 * static_cast<uint64_t>(distribution) + chain;
        const uint64_t length = static_cast<uint64_t>(fa.how.group) * (chain ? 16 : 1);
        const std::string name =
            fmt::format("{}.{}.{}.{}", fa.name, fb.name, chain ? "chain" : "one", distribution);
        const std::vector<double> expected = file.read(name);
        ASSERT_EQ(expected.size(), kRows);
        for (uint64_t row = 0; row < kRows; ++row, ++compared) {
          const float ours = emulated(fa, fb, distribution, seed, row, length);
          ASSERT_TRUE(are_same(ours, static_cast<float>(expected[row])))
              << name << " row " << row << ": " << ours << " and not " << expected[row];
        }
      }
    }
  }
  EXPECT_EQ(compared, 7 * 12 * 2 * 64);
}

struct LibraryProduct {
  int a, b;
  uint64_t length, seed;
  bool fast;
};
/// cuBLAS through torch._scaled_mm: with fast accumulation one accumulator throughout, without it
/// an f32 sum every 128 products.
constexpr LibraryProduct kLibraryProducts[] = {
    {0, 0, 192, 100008, true},   {0, 0, 192, 100008, false}, {0, 0, 1024, 100014, true},
    {0, 0, 1024, 100014, false}, {0, 0, 4096, 100016, true}, {0, 0, 4096, 100016, false},
    {0, 1, 192, 100074, true},   {0, 1, 192, 100074, false}, {0, 1, 1024, 100080, true},
    {0, 1, 1024, 100080, false}, {0, 1, 4096, 100082, true}, {0, 1, 4096, 100082, false},
    {1, 0, 192, 100140, true},   {1, 0, 192, 100140, false}, {1, 0, 1024, 100146, true},
    {1, 0, 1024, 100146, false}, {1, 0, 4096, 100148, true}, {1, 0, 4096, 100148, false},
    {2, 2, 192, 100206, true},   {2, 2, 1024, 100212, true}, {3, 3, 192, 100272, true},
    {3, 3, 1024, 100278, true},
};

TEST(TensorCore, ProductsOfCublasAreChainsOfInstructions) {
  const ReferenceFile file("tensor_core", "narrow");
  for (const LibraryProduct& p : kLibraryProducts) {
    const CoreFormat &fa = kCoreFormats[p.a], &fb = kCoreFormats[p.b];
    const std::vector<double> expected = file.read(
        fmt::format("cublas.{}.{}.{}.{}", fa.name, fb.name, p.length, p.fast ? "fast" : "exact"));
    ASSERT_EQ(expected.size(), kRows);
    for (uint64_t row = 0; row < kRows; ++row) {
      const std::vector<float> a = core_values(fa, 1, p.seed, row * p.length, p.length);
      const std::vector<float> b = core_values(fb, 1, p.seed + 1, row * p.length, p.length);
      const float ours =
          core_dot(a, fa.operand, b, fb.operand, fa.how, p.fast ? 0 : kHopperPromote);
      ASSERT_TRUE(are_same(ours, static_cast<float>(expected[row])))
          << fa.name << " x " << fb.name << ", " << p.length << ", row " << row;
    }
  }
}

/// Rows of codes as core_values() makes them.
std::vector<uint8_t> core_codes(const CoreFormat& f, uint64_t seed, uint64_t count) {
  std::vector<uint8_t> codes(count);
  for (uint64_t i = 0; i < count; ++i) {
    codes[i] = static_cast<uint8_t>(core_code(f, 1, seed, i));
  }
  return codes;
}

struct ScaledCase {
  int a, b;
  uint64_t seed;
};
constexpr ScaledCase kScaledCases[] = {{0, 0, 100006}, {0, 1, 100072}, {1, 0, 100138}};

// 16 x 64 results of 128 products, times the scales 0.3 and 0.7, in f32 and in bf16.
TEST(TensorCore, ScaledProductsHaveTheBitsOfCublas) {
  const ReferenceFile file("tensor_core", "narrow");
  constexpr int64_t kM = 16, kN = 64, kK = 128;
  const auto device = device::make_cpu_device(2);
  kernels::Exec exec(*device);
  float a_scale = 0.3f, b_scale = 0.7f;
  const auto view_of = [](auto& values, DType dtype, const Shape& shape) {
    return View(reinterpret_cast<std::byte*>(values.data()), dtype, shape);
  };
  for (const ScaledCase& c : kScaledCases) {
    const CoreFormat &fa = kCoreFormats[c.a], &fb = kCoreFormats[c.b];
    std::vector<uint8_t> a = core_codes(fa, c.seed, kM * kK);
    std::vector<uint8_t> b = core_codes(fb, c.seed + 1, kN * kK);
    for (const bool fast : {true, false}) {
      for (const DType y_type : {DType::f32, DType::bf16}) {
        std::vector<std::byte> y(static_cast<size_t>(kM * kN * bytes_of(y_type)));
        const View y_MN(y.data(), y_type, Shape{kM, kN});
        kernels::scaled_product(
            exec, {.a_MK = view_of(a, *dtype_from_name(fmt::format("f8_{}", fa.name)), {kM, kK}),
                   .b_NK = view_of(b, *dtype_from_name(fmt::format("f8_{}", fb.name)), {kN, kK}),
                   .a_scale = View(reinterpret_cast<std::byte*>(&a_scale), DType::f32, Shape{1}),
                   .b_scale = View(reinterpret_cast<std::byte*>(&b_scale), DType::f32, Shape{1}),
                   .y_MN = y_MN,
                   .accumulate =
                       fast ? kernels::Accumulate::hopper : kernels::Accumulate::hopper_promoted});
        const std::string name =
            fmt::format("cublas.{}.{}.128.{}.{}", fa.name, fb.name, fast ? "fast" : "exact",
                        y_type == DType::f32 ? "scaled" : "bf16");
        const std::vector<double> expected = file.read(name);
        for (int64_t i = 0; i < kM * kN; ++i) {
          const float ours =
              y_type == DType::f32 ? y_MN.as<float>()[i] : to_f32(y_MN.as<bf16_t>()[i]);
          ASSERT_EQ(static_cast<double>(ours), expected[static_cast<size_t>(i)])
              << name << " " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace megalith::golden
