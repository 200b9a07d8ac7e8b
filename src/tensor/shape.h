// SPDX-License-Identifier: Apache-2.0
// Sizes of a tensor's dimensions, at most kMaxDims of them, kept inline.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include <fmt/ranges.h>

#include "base/check.h"
#include "base/integer.h"

namespace megalith {

inline constexpr int kMaxDims = 8;

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims)
      : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims) : num_dims_(static_cast<int>(dims.size())) {
    MEGA_CHECK_LE(num_dims_, kMaxDims);
    std::copy(dims.begin(), dims.end(), dims_.begin());
  }

  int num_dims() const { return num_dims_; }
  int64_t operator[](int dim) const { return dims_[static_cast<size_t>(dim)]; }
  void set(int dim, int64_t size) { dims_[static_cast<size_t>(dim)] = size; }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(num_dims_)}; }

  /// Product of all sizes; 1 for a scalar. Checks that it fits.
  int64_t num_elements() const {
    int64_t n = 1;
    for (const int64_t size : dims()) {
      const auto product = checked_multiply(n, size);
      MEGA_CHECK(product.has_value() && size >= 0, "shape {} is too large", to_string());
      n = *product;
    }
    return n;
  }
  /// "[4, 768]"
  std::string to_string() const { return fmt::format("[{}]", fmt::join(dims(), ", ")); }

  friend bool operator==(const Shape& a, const Shape& b) {
    return std::ranges::equal(a.dims(), b.dims());
  }

 private:
  std::array<int64_t, kMaxDims> dims_{};
  int num_dims_ = 0;
};

inline std::string format_as(const Shape& shape) { return shape.to_string(); }

}  // namespace megalith
