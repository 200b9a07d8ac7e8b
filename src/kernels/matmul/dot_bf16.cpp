// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/dot_bf16.h"

#include <immintrin.h>

#include <array>

#include "kernels/matmul/linear_lists.h"
#include "kernels/matmul/linear_products.h"
#include "kernels/matmul/skinny.h"

namespace megalith::kernels::matmul {
namespace {

constexpr int64_t kStep = 32;     // k of one vector
constexpr int64_t kColumns = 4;   // rows of B whose sums are reduced together
constexpr int64_t kAhead = 4096;  // bytes: far enough for memory, short enough for the cache

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")

inline __m512bh load(const uint16_t* from) {
  return reinterpret_cast<__m512bh>(_mm512_loadu_si512(from));
}
inline __m512bh load_some(const uint16_t* from, __mmask32 mask) {
  return reinterpret_cast<__m512bh>(_mm512_maskz_loadu_epi16(mask, from));
}

/// (GCC 12 warns of its own _mm512_reduce_add_ps and of casts to halves.)
inline float sum_of_lanes(__m512 x) {
  const __m256 half = _mm256_add_ps(_mm512_maskz_extractf32x8_ps(0xff, x, 0),
                                    _mm512_maskz_extractf32x8_ps(0xff, x, 1));
  const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  const __m128 pair = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
}

/// kRows rows of A against one row of B: two chains of vectors for each, so that one waits for
/// memory and not for its own last sum.
template <int kRows>
inline void multiply_column(const uint16_t* a, int64_t a_stride, const uint16_t* b, int64_t k,
                            __m512 (&sum)[kRows]) {
  __m512 other[kRows];
  for (int r = 0; r < kRows; ++r) sum[r] = other[r] = _mm512_setzero_ps();
  int64_t i = 0;
  for (; i + 2 * kStep <= k; i += 2 * kStep) {
    _mm_prefetch(reinterpret_cast<const char*>(b + i) + kAhead, _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(b + i) + kAhead + 64, _MM_HINT_T0);
    const __m512bh b0 = load(b + i), b1 = load(b + i + kStep);
    for (int r = 0; r < kRows; ++r) {
      sum[r] = _mm512_dpbf16_ps(sum[r], load(a + r * a_stride + i), b0);
      other[r] = _mm512_dpbf16_ps(other[r], load(a + r * a_stride + i + kStep), b1);
    }
  }
  for (; i < k; i += kStep) {
    const auto mask = static_cast<__mmask32>(k - i >= kStep ? ~0u : (1u << (k - i)) - 1);
    const __m512bh b0 = load_some(b + i, mask);
    for (int r = 0; r < kRows; ++r)
      sum[r] = _mm512_dpbf16_ps(sum[r], load_some(a + r * a_stride + i, mask), b0);
  }
  for (int r = 0; r < kRows; ++r) sum[r] = _mm512_add_ps(sum[r], other[r]);
}

/// Columns [begin, end) for kRows rows of A from `row` on; `sums` gets them row by row.
template <int kRows>
void multiply(const Product& product, int64_t row, Range columns, const View& sums) {
  const int64_t a_stride = product.a.stride, b_stride = product.b.stride;
  const auto* a = reinterpret_cast<const uint16_t*>(product.a.data) + row * a_stride;
  const auto* b = reinterpret_cast<const uint16_t*>(product.b.data);
  const ConstView& bias = product.epilogue.bias;
  for (int64_t n = columns.begin; n < columns.end; ++n) {
    __m512 sum[kRows];
    multiply_column<kRows>(a, a_stride, b + n * b_stride, product.k, sum);
    float add = 0;
    if (bias) add = bias.dtype() == DType::f32 ? bias.as<float>()[n] : to_f32(bias.as<bf16_t>()[n]);
    for (int r = 0; r < kRows; ++r) {
      const float value = sum_of_lanes(sum[r]) + add;
      if (sums.dtype() == DType::f32) {
        sums.row<float>(row + r)[n] = value;
      } else {
        sums.row<bf16_t>(row + r)[n] = to_bf16(value);
      }
    }
  }
}

#pragma GCC pop_options

void multiply_rows(const Product& product, Range columns, const View& sums) {
  // A few columns at a time, so that rows of B are still in the cache for the next rows of A.
  for (int64_t n = columns.begin; n < columns.end; n += kColumns) {
    const Range some{n, std::min(n + kColumns, columns.end)};
    int64_t row = 0;
    for (; row + 4 <= product.m; row += 4) multiply<4>(product, row, some, sums);
    for (; row < product.m; ++row) multiply<1>(product, row, some, sums);
  }
}

}  // namespace

bool is_dot_bf16(const Product& product, device::Isa isa) {
  return isa == device::Isa::avx512_bf16 && is_skinny(product) && product.a.dtype == DType::bf16 &&
         product.b.dtype == DType::bf16;
}

void run_dot_bf16(const Product& product, device::Isa isa, ThreadPool& pool) {
  const Epilogue& e = product.epilogue;
  const View sums = e.pre_activation ? e.pre_activation : e.out;
  const bool finishes = e.pre_activation || e.activation != Activation::none;
  pool.for_range(product.n, 64, [&](Range columns, int) {
    multiply_rows(product, columns, sums);
    if (finishes) finish_stored_sums(e, sums, {0, product.m}, columns, isa);
  });
}

namespace {

template <typename Arguments>
void run(Exec& exec, const Arguments& arguments) {
  const Product product = product_of(arguments);
  if (product.m > 0 && product.n > 0 && product.k > 0 && !exec.device.is_trace())
    run_dot_bf16(product, exec.device.target().isa, exec.device.pool());
}

template <typename Arguments>
std::string_view refuse(const Exec& exec, const Arguments& arguments) {
  return is_dot_bf16(product_of(arguments), exec.device.target().isa)
             ? std::string_view()
             : std::string_view("a few rows of bf16 and the processor's dot product of them only");
}

}  // namespace

void dot(Exec& exec, const LinearForward& a) { run(exec, a); }
void dot(Exec& exec, const LinearBackwardInput& a) { run(exec, a); }
void dot(Exec& exec, const LinearBackwardWeight& a) { run(exec, a); }
std::string_view dot_refuses(const Exec& exec, const LinearForward& a) { return refuse(exec, a); }
std::string_view dot_refuses(const Exec& exec, const LinearBackwardInput& a) {
  return refuse(exec, a);
}
std::string_view dot_refuses(const Exec& exec, const LinearBackwardWeight& a) {
  return refuse(exec, a);
}

}  // namespace megalith::kernels::matmul
