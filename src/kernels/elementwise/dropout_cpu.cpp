// SPDX-License-Identifier: Apache-2.0
// Dropout for f32, bf16 and f16. The words of a stretch of a row are drawn into a buffer first
// (Philox gives them four at a time, on its own boundaries), then compared and applied.
#include "kernels/elementary/dispatch.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/elementwise/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/dropout_cpu.cpp"
#include "kernels/elementary/targets.h"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "hwy/cache_control.h"
#include "kernels/elementwise/map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {

constexpr int64_t kStretch =
    128;  // words in the buffer; its lines are fetched while they are drawn

/// What a row's draws are keyed by.
struct RowKey {
  uint64_t key;
  uint32_t position;
  uint64_t sample;
};

/// Words of n <= kStretch channels from `channel` on, in `words` (longer by what the ends need);
/// returns the first one's index there.
int64_t draw(const RowKey& row, int64_t channel, int64_t n, uint32_t* words) {
  const int64_t skipped = channel % 4;
  const auto first = static_cast<uint32_t>(channel / 4);
  for (int64_t i = 0; i < skipped + n; i += 4 * kFloatLanes) {
    WordVec drawn[4];
    philox_words<2>(row.key, first + static_cast<uint32_t>(i / 4), row.position, row.sample, drawn);
    for (int k = 0; k < 4; ++k) hn::Store(drawn[k], WordTag(), words + i + k * kFloatLanes);
  }
  return skipped;
}

/// Starts loading n elements: drawing takes about as long as memory does.
template <class T>
HWY_INLINE void fetch(const T* p, int64_t n) {
  for (int64_t i = 0; i < n; i += 64 / static_cast<int64_t>(sizeof(T))) hwy::Prefetch(p + i);
}

/// y = [residual +] drop(x) for columns [begin, end) of one row.
template <class X, class R, class Y>
void apply(const X* x, const R* residual, Y* y, int64_t begin, int64_t end, const RowKey& row,
           int64_t channel_begin, uint32_t threshold, float factor) {
  HWY_ALIGN uint32_t words[kStretch + 4 * 16];  // the last draw may give more than is needed
  const FloatVec factors = hn::Set(FloatTag(), factor);
  for (int64_t c = begin; c < end; c += kStretch) {
    const int64_t n = std::min(kStretch, end - c);
    fetch(x + c, n);
    if (residual != nullptr) fetch(residual + c, n);
    fetch(y + c, n);
    const uint32_t* word = words + draw(row, channel_begin + c, n, words);
    int64_t i = 0;
    const auto dropped = [&](FloatVec v) {
      const auto mask = at_least(hn::LoadU(WordTag(), word + i), threshold);
      return hn::IfThenElseZero(mask, hn::Mul(v, factors));
    };
    for (; i + kFloatLanes <= n; i += kFloatLanes) {
      FloatVec v = dropped(load(x + c + i));
      if (residual != nullptr) v = hn::Add(load(residual + c + i), v);
      store(v, y + c + i);
    }
    if (i < n) {
      FloatVec v = dropped(load_some(x + c + i, n - i));
      if (residual != nullptr) v = hn::Add(load_some(residual + c + i, n - i), v);
      store_some(v, y + c + i, n - i);
    }
  }
}

void dropout_piece(const ResidualDropoutForward& a, int64_t t, int64_t begin, int64_t end) {
  const Dropout& dropout = a.dropout;
  const RowKey row = {dropout.key, static_cast<uint32_t>(dropout.position_T.as<int32_t>()[t]),
                      static_cast<uint64_t>(dropout.sample_T.as<int64_t>()[t])};
  const uint32_t threshold = dropout_threshold(dropout.p);
  const float factor = dropout_scale(dropout.p);
  with_storage(a.x_TH.dtype(), [&](auto x_type) {
    with_storage(a.y_TH.dtype(), [&](auto y_type) {
      using X = decltype(x_type);
      using Y = decltype(y_type);
      const X* x = a.x_TH.row<X>(t);
      Y* y = a.y_TH.row<Y>(t);
      if (a.residual_TH.absent()) {
        const float* none = nullptr;
        apply(x, none, y, begin, end, row, dropout.channel_begin, threshold, factor);
      } else {
        with_storage(a.residual_TH.dtype(), [&](auto residual_type) {
          apply(x, a.residual_TH.row<decltype(residual_type)>(t), y, begin, end, row,
                dropout.channel_begin, threshold, factor);
        });
      }
    });
  });
}

}  // namespace
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {

void residual_dropout_simd(Exec& exec, const ResidualDropoutForward& arguments) {
  if (arguments.dropout.p == 0) {
    if (arguments.residual_TH.absent()) return cast_simd(exec, {arguments.x_TH, arguments.y_TH});
    return add_simd(exec, {arguments.residual_TH, arguments.x_TH, arguments.y_TH});
  }
  ResidualDropoutForward matrices = arguments;
  matrices.x_TH = as_matrix(arguments.x_TH);
  if (!arguments.residual_TH.absent()) matrices.residual_TH = as_matrix(arguments.residual_TH);
  matrices.y_TH = as_matrix(arguments.y_TH);
  for_pieces(exec, matrices.y_TH.size(0), matrices.y_TH.size(1),
             [&](int64_t row, int64_t begin, int64_t end) {
               MEGA_CALL_SIMD(exec, dropout_piece, matrices, row, begin, end);
             });
}

}  // namespace megalith::kernels
#endif  // HWY_ONCE
