// SPDX-License-Identifier: Apache-2.0
#include "spec/rotary_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "math/elementary_double.h"

namespace megalith::layers {
namespace {

double power(double base, double exponent) {
  return elementary::exp(exponent * elementary::log(base));
}

/// base^e_i, rounded to f32 like base and e_i.
float pair_period(double base, int64_t pair, int64_t dim) {
  const float exponent = static_cast<float>(2 * pair) / static_cast<float>(dim);
  return static_cast<float>(
      power(static_cast<double>(static_cast<float>(base)), static_cast<double>(exponent)));
}

/// A number divided by a tensor in PyTorch: the reciprocal's rounding is in it.
float quotient(float a, float b) { return 1 / b * a; }

float llama3_inverse(const RopeSpec& rope, double original, float inverse) {
  const auto factor = static_cast<float>(rope.factor);
  const auto low = static_cast<float>(rope.low_frequency_factor);
  const auto high = static_cast<float>(rope.high_frequency_factor);
  const float wavelength = quotient(static_cast<float>(2 * std::numbers::pi), inverse);
  if (static_cast<double>(wavelength) > original / rope.low_frequency_factor)
    return inverse / factor;
  if (static_cast<double>(wavelength) < original / rope.high_frequency_factor) return inverse;
  const float smooth = (quotient(static_cast<float>(original), wavelength) - low) / (high - low);
  return (1 - smooth) * inverse / factor + smooth * inverse;
}

/// The pair, a fraction, that turns `turns` times in the original context.
double yarn_pair(const RopeSpec& rope, double original, double turns) {
  return static_cast<double>(rope.dim) *
         elementary::log(original / (turns * 2 * std::numbers::pi)) /
         (2 * elementary::log(rope.base));
}

float yarn_inverse(const RopeSpec& rope, double original, int64_t pair, float period) {
  double low = yarn_pair(rope, original, rope.beta_fast);
  double high = yarn_pair(rope, original, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rope.dim - 1));
  if (low == high) high += 0.001;
  const float ramp = std::clamp(
      (static_cast<float>(pair) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0F,
      1.0F);
  const float own = 1 - ramp;  // how much of the trained angle stays
  return 1 / (static_cast<float>(rope.factor) * period) * (1 - own) + 1 / period * own;
}

/// What cosines and sines are multiplied with.
double scale_of(const RopeSpec& rope, double original) {
  if (rope.attention_factor > 0) return rope.attention_factor;
  if (rope.scaling == RopeScaling::yarn)
    return rope.factor > 1 ? 0.1 * elementary::log(rope.factor) + 1 : 1;
  if (rope.scaling == RopeScaling::longrope && rope.factor > 1)
    return std::sqrt(1 + elementary::log(rope.factor) / elementary::log(original));
  return 1;
}

double base_of(const RopeSpec& rope, double original, double length) {
  if (rope.scaling != RopeScaling::dynamic) return rope.base;
  const double dim = static_cast<double>(rope.dim), reach = std::max(length, original);
  return rope.base * power(rope.factor * reach / original - (rope.factor - 1), dim / (dim - 2));
}

}  // namespace

kernels::RotaryFrequencies rotary_frequencies(const RopeSpec& rope, int64_t context,
                                              int64_t length) {
  const auto original =
      static_cast<double>(rope.original_context > 0 ? rope.original_context : context);
  const double base = base_of(rope, original, static_cast<double>(length));
  kernels::RotaryFrequencies frequencies;
  frequencies.pairs = rope.dim / 2;
  frequencies.scale = static_cast<float>(scale_of(rope, original));
  const std::vector<double>& factors =
      static_cast<double>(length) > original ? rope.long_factors : rope.short_factors;
  for (int64_t pair = 0; pair < frequencies.pairs; ++pair) {
    const float period = pair_period(base, pair, rope.dim);
    float& inverse = frequencies.inverse[static_cast<size_t>(pair)];
    inverse = 1 / period;
    if (rope.scaling == RopeScaling::linear) inverse /= static_cast<float>(rope.factor);
    if (rope.scaling == RopeScaling::llama3) inverse = llama3_inverse(rope, original, inverse);
    if (rope.scaling == RopeScaling::yarn) inverse = yarn_inverse(rope, original, pair, period);
    if (rope.scaling == RopeScaling::longrope)
      inverse = 1 / (static_cast<float>(factors[static_cast<size_t>(pair)]) * period);
  }
  return frequencies;
}

}  // namespace megalith::layers
