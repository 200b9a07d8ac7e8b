// SPDX-License-Identifier: Apache-2.0
#include "comm/memory_mover.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace megalith::comm {
namespace {

/// The maximum independent of order: any NaN gives the default NaN, and +0 is above -0.
template <typename T>
T larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a > b ? a : b;
}

template <typename T>
T smaller(T a, T b) {
  return std::min(a, b);
}

int64_t sum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

// A block of the running result stays in the first-level cache.
constexpr int64_t kBlock = 1024;

template <typename T, typename Combine>
void reduce_typed(std::span<const Operation> posts, int64_t begin, int64_t count, Combine combine) {
  std::array<T, kBlock> block;
  for (int64_t i = begin; i < begin + count; i += kBlock) {
    const int64_t n = std::min(kBlock, begin + count - i);
    std::copy_n(posts[0].target.as<T>() + i, n, block.begin());
    for (const Operation& post : posts.subspan(1)) {
      const T* const x = post.target.as<T>() + i;
      for (int64_t j = 0; j < n; ++j) {
        block[static_cast<size_t>(j)] = combine(block[static_cast<size_t>(j)], x[j]);
      }
    }
    for (const Operation& post : posts) std::copy_n(block.begin(), n, post.target.as<T>() + i);
  }
}

}  // namespace

void reduce_piece(std::span<const Operation> posts, int64_t begin, int64_t count) {
  switch (posts[0].dtype) {
    case DType::i32:
      return reduce_typed<int32_t>(posts, begin, count, smaller<int32_t>);
    case DType::f32:
      return reduce_typed<float>(posts, begin, count, larger<float>);
    case DType::f64:
      return reduce_typed<double>(posts, begin, count, larger<double>);
    case DType::i64:
      return reduce_typed<int64_t>(
          posts, begin, count,
          posts[0].kind == OperationKind::all_reduce_sum ? sum : larger<int64_t>);
    default:
      MEGA_CHECK(false, "all-reduce of {}", posts[0].dtype);
  }
}

}  // namespace megalith::comm
