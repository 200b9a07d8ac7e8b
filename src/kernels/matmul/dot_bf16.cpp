// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/dot_bf16.h"

#include <immintrin.h>

#include "kernels/matmul/linear_lists.h"
#include "kernels/matmul/linear_products.h"
#include "kernels/matmul/small_m.h"

namespace megalith::kernels::matmul {
namespace {

constexpr int64_t kStep = 32;   // k of one vector
constexpr int64_t kPiece = 32;  // columns: a cache line of bf16

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")

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

/// kRows rows of A against kColumns rows of B, each the start of a stream of its own: one chain of
/// vectors per element. The processor fetches ahead by itself; explicit prefetches were measured
/// slower, two streams faster than one.
template <int kRows, int kColumns>
inline void multiply_columns(const uint16_t* a, int64_t a_stride,
                             const uint16_t* const (&b)[kColumns], int64_t k,
                             __m512 (&sum)[kColumns][kRows]) {
  for (int c = 0; c < kColumns; ++c) {
    for (int r = 0; r < kRows; ++r) sum[c][r] = _mm512_setzero_ps();
  }
  for (int64_t i = 0; i < k; i += kStep) {
    const auto mask = static_cast<__mmask32>(k - i >= kStep ? ~0u : (1u << (k - i)) - 1);
    __m512bh x[kRows];
    for (int r = 0; r < kRows; ++r) x[r] = load_some(a + r * a_stride + i, mask);
    for (int c = 0; c < kColumns; ++c) {
      const __m512bh y = load_some(b[c] + i, mask);
      for (int r = 0; r < kRows; ++r) sum[c][r] = _mm512_dpbf16_ps(sum[c][r], x[r], y);
    }
  }
}

float bias_at(const ConstView& bias, int64_t n) {
  if (!bias) return 0;
  return bias.dtype() == DType::f32 ? bias.as<float>()[n] : to_f32(bias.as<bf16_t>()[n]);
}

/// Columns `n` of B for kRows rows of A from `row` on, to `sums`.
template <int kRows, int kColumns>
inline void multiply(const Product& product, int64_t row, const int64_t (&n)[kColumns],
                     const View& sums) {
  const auto* a = reinterpret_cast<const uint16_t*>(product.a.data) + row * product.a.stride;
  const uint16_t* b[kColumns];
  for (int c = 0; c < kColumns; ++c)
    b[c] = reinterpret_cast<const uint16_t*>(product.b.data) + n[c] * product.b.stride;
  __m512 sum[kColumns][kRows];
  multiply_columns<kRows, kColumns>(a, product.a.stride, b, product.k, sum);
  for (int c = 0; c < kColumns; ++c) {
    const float add = bias_at(product.epilogue.bias, n[c]);
    for (int r = 0; r < kRows; ++r) {
      const float value = sum_of_lanes(sum[c][r]) + add;
      if (sums.dtype() == DType::f32) {
        sums.row<float>(row + r)[n[c]] = value;
      } else {
        sums.row<bf16_t>(row + r)[n[c]] = to_bf16(value);
      }
    }
  }
}

#pragma GCC pop_options

/// All rows of A against some columns; these are then still in the cache for the next rows.
template <int kColumns>
void multiply_rows(const Product& product, const int64_t (&n)[kColumns], const View& sums) {
  int64_t row = 0;
  for (; row + 4 <= product.m; row += 4) multiply<4, kColumns>(product, row, n, sums);
  for (; row < product.m; ++row) multiply<1, kColumns>(product, row, n, sums);
}

void multiply_range(const Product& product, Range columns, const View& sums) {
  const int64_t half = columns.size() / 2;
  for (int64_t n = columns.begin; n < columns.begin + half; ++n)
    multiply_rows<2>(product, {n, n + half}, sums);
  if (columns.size() % 2 != 0) multiply_rows<1>(product, {columns.end - 1}, sums);
}

}  // namespace

bool is_dot_bf16(const Product& product, device::Isa isa) {
  return isa == device::Isa::avx512_bf16 && is_small_m(product) && product.a.dtype == DType::bf16 &&
         product.b.dtype == DType::bf16;
}

void run_dot_bf16(const Product& product, device::Isa isa, ThreadPool& pool) {
  const Epilogue& e = product.epilogue;
  const View sums = e.pre_activation ? e.pre_activation : e.out;
  const bool finishes = e.pre_activation || e.activation != Activation::none;
  pool.for_pieces(product.n, kPiece, [&](Range columns, int) {
    multiply_range(product, columns, sums);
    if (finishes) finish_stored_sums(e, sums, {0, product.m}, columns, isa);
  });
}

namespace {

template <typename Arguments>
void run(Exec& exec, const Arguments& arguments) {
  const Product product = product_of(arguments);
  if (product.m > 0 && product.n > 0 && product.k > 0)
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
