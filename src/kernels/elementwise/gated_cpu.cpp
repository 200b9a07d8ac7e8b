// SPDX-License-Identifier: Apache-2.0
// Gates for f32, bf16 and f16: a vector of pairs at a time, the activations of activation-inl.h.
#include "kernels/elementary/dispatch.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/elementwise/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/gated_cpu.cpp"
#include "kernels/elementary/targets.h"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/elementary/pairs-inl.h"
#include "kernels/elementwise/activation-inl.h"
#include "kernels/elementwise/map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {

template <Activation kActivation>
HWY_INLINE FloatVec gated(const VecPair& u) {
  return hn::Mul(activation_value<kActivation>(u.first), u.second);
}
template <Activation kActivation>
HWY_INLINE VecPair gated_grad(FloatVec dy, const VecPair& u) {
  return {hn::Mul(hn::Mul(dy, u.second), activation_grad<kActivation>(u.first)),
          hn::Mul(dy, activation_value<kActivation>(u.first))};
}

template <Activation kActivation, class U, class Y>
void forward_pairs(const U* u, Y* y, int64_t n) {
  int64_t j = 0;
  for (; j + kFloatLanes <= n; j += kFloatLanes)
    store(gated<kActivation>(load_pairs(u + 2 * j)), y + j);
  if (j < n) store_some(gated<kActivation>(load_pairs_some(u + 2 * j, n - j)), y + j, n - j);
}
template <Activation kActivation, class G, class U, class D>
void backward_pairs(const G* dy, const U* u, D* du, int64_t n) {
  int64_t j = 0;
  for (; j + kFloatLanes <= n; j += kFloatLanes)
    store_pairs(gated_grad<kActivation>(load(dy + j), load_pairs(u + 2 * j)), du + 2 * j);
  if (j < n) {
    const VecPair tail = load_pairs_some(u + 2 * j, n - j);
    store_pairs_some(gated_grad<kActivation>(load_some(dy + j, n - j), tail), du + 2 * j, n - j);
  }
}

void forward_piece(const GatedForward& a, int64_t row, int64_t begin, int64_t end) {
  with_activation(a.kind, [&](auto kind) {
    constexpr Activation kKind = decltype(kind)::value;
    with_storage(a.u_TG.dtype(), [&](auto u_type) {
      with_storage(a.y_TF.dtype(), [&](auto y_type) {
        forward_pairs<kKind>(a.u_TG.row<decltype(u_type)>(row) + 2 * begin,
                             a.y_TF.row<decltype(y_type)>(row) + begin, end - begin);
      });
    });
  });
}
void backward_piece(const GatedBackward& a, int64_t row, int64_t begin, int64_t end) {
  with_activation(a.kind, [&](auto kind) {
    constexpr Activation kKind = decltype(kind)::value;
    with_storage(a.dy_TF.dtype(), [&](auto dy_type) {
      with_storage(a.u_TG.dtype(), [&](auto u_type) {
        with_storage(a.du_TG.dtype(), [&](auto du_type) {
          backward_pairs<kKind>(a.dy_TF.row<decltype(dy_type)>(row) + begin,
                                a.u_TG.row<decltype(u_type)>(row) + 2 * begin,
                                a.du_TG.row<decltype(du_type)>(row) + 2 * begin, end - begin);
        });
      });
    });
  });
}

}  // namespace
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {

void gated_forward_simd(Exec& exec, const GatedForward& a) {
  for_pieces(exec, a.y_TF.size(0), a.y_TF.size(1), [&](int64_t row, int64_t begin, int64_t end) {
    MEGA_CALL_SIMD(exec, forward_piece, a, row, begin, end);
  });
}

void gated_backward_simd(Exec& exec, const GatedBackward& a) {
  for_pieces(exec, a.dy_TF.size(0), a.dy_TF.size(1), [&](int64_t row, int64_t begin, int64_t end) {
    MEGA_CALL_SIMD(exec, backward_piece, a, row, begin, end);
  });
}

}  // namespace megalith::kernels
#endif  // HWY_ONCE
