// SPDX-License-Identifier: Apache-2.0
// Derived bounds on how far attention in f32 arithmetic may lie from its reference. For tests only.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/attention/attention_cases.h"

namespace megalith::kernels {

/// Largest norm of a head's row in columns [begin, end) of x, heads being `size` wide.
inline double largest_norm(const testing::TestTensor& x, int64_t size) {
  double largest = 0;
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t c = 0; c < x.columns(); c += size) {
      double sum = 0;
      for (int64_t d = 0; d < size; ++d) sum += x.at(r, c + d) * x.at(r, c + d);
      largest = std::max(largest, sum);
    }
  }
  return std::sqrt(largest);
}

inline double largest_norm(const AttentionData& data) {
  return std::max(largest_norm(data.qkv, data.shape.head_size),
                  largest_norm(data.kv, data.shape.head_size));
}

/// No score is larger.
inline double largest_score(const AttentionData& data) {
  double bias = 0;
  for (int64_t i = 0; i < data.table.size(); ++i) bias = std::max(bias, std::abs(data.table.at(i)));
  return static_cast<double>(data.scale()) * std::pow(largest_norm(data), 2) + bias;
}

/// Relative errors of f32 arithmetic, to first order in u, of the sum of the absolute values that
/// an element adds up. A score is a chain of D terms of the size of |q||k|; a probability carries
/// its error twice (its own and that of the sum it is divided by); chains add one u per term; 64 u
/// cover the roundings of single steps (s - lse, exp, delta, scale, dropout).
struct RelativeErrors {
  double y, lse, gradient;
  double table;  // of the biases' gradient
  /// Relative errors of rounding each probability before forward's products, and each probability
  /// and score gradient before backward's.
  explicit RelativeErrors(const AttentionData& data, double forward = 0, double backward = 0) {
    const double u = 0x1p-24;
    const auto d = static_cast<double>(data.shape.head_size);
    double n = 1;
    for (const int32_t length : data.shape.lengths) n = std::max<double>(n, length);
    for (const int32_t length : data.shape.key_lengths) n = std::max<double>(n, length);
    const double x = largest_norm(data);
    const double score = (d + 2) * u * static_cast<double>(data.scale()) * x * x;
    const double group = static_cast<double>(data.shape.num_heads / data.shape.num_kv_heads);
    // A capped score is some roundings and the tangent's 1.5 ulp farther away; its slope 1 - t^2
    // moves by at most 0.77 per unit of score / softcap and by 8 u for t's own error.
    const auto cap = static_cast<double>(data.shape.softcap);
    // The sum with a bias is rounded once more.
    const double biased = data.shape.buckets.count == 0 ? score : score + u * largest_score(data);
    const double capped = cap > 0 ? score + 6 * u * cap : biased;
    const double slope = cap > 0 ? 0.77 * score / cap + 8 * u : 0;
    y = 2 * capped + (2 * n + 64) * u + forward;
    lse = capped + (n + 64) * u;
    gradient = 2 * capped + slope + (n * group + 2 * d + 64) * u + backward;
    // Chains along a diagonal of a block, over the diagonals and over the blocks.
    double blocks = 0;
    for (const int32_t length : data.shape.lengths) blocks += std::ceil(length / 64.0);
    table = gradient + (128 + n + 128 + blocks) * u;
  }
};

inline testing::TestTensor absolute(const testing::TestTensor& x, double sign = 1) {
  testing::TestTensor result = x;
  result.fill([&](int64_t i) { return sign * std::abs(x.at(i)); });
  return result;
}
/// The sums of absolute values behind each element of dqkv and dkv, and of dtable, where what data
/// has there counts too: the reference's own backward on probabilities and inputs of one sign (with
/// -|y| the difference dp - delta becomes a sum). A softcap's slope is taken as 1, its largest
/// value.
inline AttentionData gradient_magnitudes(const AttentionData& data, device::Device& device) {
  AttentionData x(data);
  x.materialised = true;
  x.forward(device, "reference");
  x.qkv = absolute(data.qkv);
  x.kv = absolute(data.kv);
  x.dy = absolute(data.dy);
  x.y = absolute(data.y, -1);
  x.shape.softcap = 0;
  x.dtable = absolute(data.dtable);
  x.backward(device, "reference");
  return x;
}
/// The same for y: the values made positive.
inline testing::TestTensor output_magnitudes(const AttentionData& data, device::Device& device) {
  AttentionData x(data);
  const int64_t size = data.shape.head_size;
  const int64_t group = data.shape.num_heads / data.shape.num_kv_heads + 2;
  const auto make_values_positive = [&](testing::TestTensor& y, const testing::TestTensor& from) {
    y.fill([&](int64_t i) {
      const int64_t head = i % from.columns() / size;
      return head % group == group - 1 ? std::abs(from.at(i)) : from.at(i);
    });
  };
  make_values_positive(x.qkv, data.qkv);
  make_values_positive(x.kv, data.kv);
  x.forward(device, "reference");
  return x.y;
}

}  // namespace megalith::kernels
