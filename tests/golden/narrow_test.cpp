// SPDX-License-Identifier: Apache-2.0
// Narrow types against what PyTorch and an independent program gave
// (tests/oracle/narrow_golden.py): digests of converted codes, and 50 steps of delayed scaling to
// the bit.
#include <cmath>
#include <cstring>

#include "base/file.h"
#include "golden/reference_file.h"
#include "kernels/narrow/convert.h"
#include "kernels/narrow/loss_scale.h"
#include "precision/scaling.h"

namespace megalith::golden {
namespace {

/// 2^24 bit patterns of f32, as narrow_golden.py's sampled_f32().
std::vector<uint32_t> sampled_f32() {
  std::vector<uint32_t> bits(size_t{1} << 24);
  for (uint64_t i = 0; i < bits.size(); ++i) {
    bits[i] = static_cast<uint32_t>(i << 8 | (i * 0x9E3779B97F4A7C15u) >> 56);
  }
  return bits;
}
std::vector<uint32_t> all_bf16() {
  std::vector<uint32_t> bits(1 << 16);
  for (uint32_t i = 0; i < bits.size(); ++i) bits[i] = i << 16;
  return bits;
}

/// The code that stands for a NaN in the digests of types of 16 bits.
template <class T>
void replace_nan(const std::vector<uint32_t>& bits, std::vector<T>& codes, T nan) {
  for (size_t i = 0; i < bits.size(); ++i) {
    if ((bits[i] & 0x7fffffffu) > 0x7f800000u) codes[i] = nan;
  }
}

template <class T>
std::vector<T> converted(const std::vector<uint32_t>& bits, DType to, Overflow overflow) {
  const auto count = static_cast<int64_t>(bits.size());
  std::vector<T> codes(bits.size());
  if (to == DType::f8_e8m0) {
    for (size_t i = 0; i < bits.size(); ++i) {
      codes[i] = to_f8_e8m0(std::bit_cast<float>(bits[i])).bits;
    }
    return codes;
  }
  const auto device = device::make_cpu_device(2);
  kernels::Exec exec(*device);
  kernels::convert(
      exec, ConstView(reinterpret_cast<const std::byte*>(bits.data()), DType::f32, Shape{count}),
      View(reinterpret_cast<std::byte*>(codes.data()), to, Shape{count}), overflow);
  return codes;
}

template <class T>
void expect_digest(const ReferenceFile& file, const std::string& name,
                   const std::vector<T>& codes) {
  const std::vector<double> expected = file.read(name);
  const std::string hex = sha256(std::as_bytes(std::span(codes)));
  std::string wanted;
  for (const double byte : expected) wanted += fmt::format("{:02x}", static_cast<int>(byte));
  EXPECT_EQ(hex, wanted) << name;
}

TEST(Narrow, ConversionsAreThoseOfPyTorch) {
  const ReferenceFile file("conversions", "narrow");
  for (const auto& [source, bits] :
       {std::pair("f32", sampled_f32()), std::pair("bf16", all_bf16())}) {
    for (const DType to : {DType::f8_e4m3, DType::f8_e5m2, DType::f8_e8m0}) {
      const std::string name = fmt::format("{}.{}", source, to);
      expect_digest(file, name + ".nonfinite", converted<uint8_t>(bits, to, Overflow::nonfinite));
      if (to == DType::f8_e8m0) continue;
      expect_digest(file, name + ".saturate", converted<uint8_t>(bits, to, Overflow::saturate));
    }
    std::vector<uint16_t> f16 = converted<uint16_t>(bits, DType::f16, Overflow::nonfinite);
    replace_nan<uint16_t>(bits, f16, 0x7e00);
    expect_digest(file, fmt::format("{}.f16.nonfinite", source), f16);
    std::vector<uint16_t> bf16 = converted<uint16_t>(bits, DType::bf16, Overflow::nonfinite);
    replace_nan<uint16_t>(bits, bf16, 0);
    expect_digest(file, fmt::format("{}.bf16.nonfinite", source), bf16);
  }
}

struct Configuration {
  const char* name;
  int64_t history;
  kernels::AmaxChoice choice;
  int margin;
  precision::Operand operand;
  bool power_of_two;
};
using kernels::AmaxChoice;
using precision::Operand;
constexpr Configuration kConfigurations[] = {
    {"max_8", 8, AmaxChoice::max, 0, Operand::input, false},
    {"recent_1", 1, AmaxChoice::most_recent, 0, Operand::weight, false},
    {"recent_4", 4, AmaxChoice::most_recent, 2, Operand::input, false},
    {"max_5_e5m2", 5, AmaxChoice::max, 1, Operand::output_gradient, true},
    {"max_1024", 1024, AmaxChoice::max, 0, Operand::input, false}};

/// What one step sees of a tensor: its magnitude, smaller numbers, zeros; and a pass again, of
/// other numbers, that must leave no trace.
void use(kernels::Exec& exec, precision::Scaling& scaling, size_t tensor, float magnitude) {
  float x[5] = {0, magnitude / 2, 0, 0, 0}, scale = 0;
  uint8_t codes[5];
  const View numbers(reinterpret_cast<std::byte*>(x), DType::f32, Shape{1, 5});
  const precision::Scaling::Destination to = {
      .codes = View(reinterpret_cast<std::byte*>(codes), scaling.code_type(), Shape{1, 5}),
      .scales = View(reinterpret_cast<std::byte*>(&scale), DType::f32, Shape{1})};
  scaling.quantize(exec, tensor, numbers, to);
  x[3] = -magnitude;
  scaling.quantize(exec, tensor, numbers, to);
  EXPECT_EQ(scale, 1 / scaling.scale().as<float>()[tensor]);
  x[1] = 3e38f;
  scaling.quantize(exec, tensor, numbers, to, precision::Scaling::Record::nothing);
}

TEST(Narrow, DelayedScalingIsThatOfAnIndependentProgram) {
  const ReferenceFile file("delayed_scaling", "narrow");
  const std::vector<double> magnitudes = file.read("magnitudes");
  constexpr size_t kTensors = 6, kSteps = 50;
  ASSERT_EQ(magnitudes.size(), kTensors * kSteps);
  const auto device = device::make_cpu_device(1);
  kernels::Exec exec(*device);
  for (const Configuration& c : kConfigurations) {
    SCOPED_TRACE(c.name);
    precision::ScalingOptions options;
    options.history = c.history;
    options.choice = c.choice;
    options.margin = c.margin;
    options.power_of_two = c.power_of_two;
    precision::Scaling scaling(*device, options, c.operand, std::vector<std::string>(kTensors));
    const std::vector<double> scales = file.read(std::string(c.name) + ".scales");
    for (size_t step = 0; step < kSteps; ++step) {
      for (size_t n = 0; n < kTensors; ++n) {
        const auto magnitude = static_cast<float>(magnitudes[step * kTensors + n]);
        if (magnitude >= 0) use(exec, scaling, n, magnitude);  // else not used in this step
      }
      scaling.update(exec);
      for (size_t n = 0; n < kTensors; ++n) {
        ASSERT_EQ(static_cast<double>(scaling.scale().as<float>()[n]), scales[step * kTensors + n])
            << "step " << step << ", tensor " << n;
      }
    }
    EXPECT_EQ(host_values(*device, scaling.history()), file.read(std::string(c.name) + ".history"));
  }
}

TEST(Narrow, LossScaleFollowsGradScaler) {
  const ReferenceFile file("loss_scale", "narrow");
  const std::vector<double> finite = file.read("finite"), scales = file.read("scales");
  const auto device = device::make_cpu_device(1);
  kernels::Exec exec(*device);
  float scale = 65536;
  int32_t steps[2] = {0, 1}, now = 0;
  kernels::UpdateLossScale rules = {
      .finite = View(reinterpret_cast<std::byte*>(&now), DType::i32, Shape{1}),
      .scale = View(reinterpret_cast<std::byte*>(&scale), DType::f32, Shape{1}),
      .steps = View(reinterpret_cast<std::byte*>(steps), DType::i32, Shape{2}),
      .interval = 7};
  for (size_t step = 0; step < finite.size(); ++step) {
    now = static_cast<int32_t>(finite[step]);
    kernels::update_loss_scale(exec, rules);
    ASSERT_EQ(static_cast<double>(scale), scales[step]) << step;
  }
  EXPECT_EQ(finite.size(), 400U);
}

}  // namespace
}  // namespace megalith::golden
