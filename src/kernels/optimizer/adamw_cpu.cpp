// SPDX-License-Identifier: Apache-2.0
// AdamW for f32: one pass, bound by memory (16 bytes read and 12 to 16 written per parameter), so
// that looking at each number it writes costs nothing.
#include <atomic>

#include "kernels/elementary/dispatch.h"
#include "kernels/elementary/run_chosen.h"
#include "kernels/optimizer/implementations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer/adamw_cpu.cpp"
#include "kernels/elementary/targets.h"
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on
#include "kernels/elementwise/map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {

struct State {
  FloatVec w, m, v;
};

/// The operations of adamw.h.
struct Update {
  FloatVec scale, decay, factor1, factor2, step_size, root_correction, eps;
  bool from_old1, from_old2;

  Update(const AdamWFactors& f, float gradient_scale)
      : scale(hn::Set(FloatTag(), gradient_scale)),
        decay(set(f.decay)),
        factor1(set(f.first.factor)),
        factor2(set(f.second.factor)),
        step_size(set(f.step_size)),
        root_correction(set(f.root_correction)),
        eps(set(f.eps)),
        from_old1(f.first.from_old),
        from_old2(f.second.from_old) {}
  static HWY_INLINE FloatVec set(double x) { return hn::Set(FloatTag(), static_cast<float>(x)); }

  HWY_INLINE State operator()(const State& old, FloatVec gradient) const {
    const FloatVec g = hn::Mul(scale, gradient);
    const FloatVec m = hn::MulAdd(factor1, hn::Sub(g, old.m), from_old1 ? old.m : g);
    const FloatVec v =
        hn::MulAdd(factor2, hn::MulSub(g, g, old.v), from_old2 ? old.v : hn::Mul(g, g));
    const FloatVec denominator = hn::Add(hn::Div(hn::Sqrt(v), root_correction), eps);
    const FloatVec w = hn::Mul(decay, old.w);
    return {hn::NegMulAdd(step_size, hn::Div(m, denominator), w), m, v};
  }
};

/// Whether all numbers it was shown are finite: x - x is 0, or else not a number.
class FiniteCheck {
 public:
  FiniteCheck() : sum_(hn::Zero(FloatTag())) {}
  HWY_INLINE void look(FloatVec x) { sum_ = hn::Add(sum_, hn::Sub(x, x)); }
  HWY_INLINE void look(const State& state) {
    look(state.w);
    look(state.m);
    look(state.v);
  }
  HWY_INLINE bool passed() const {
    return hn::AllTrue(FloatTag(), hn::Eq(sum_, hn::Zero(FloatTag())));
  }

 private:
  FloatVec sum_;
};

/// Returns whether all it wrote is finite; the copy too, whose rounding may overflow.
template <class Compute>
bool update_range(const AdamW& a, const AdamWFactors& factors, float gradient_scale,
                  Compute* compute, Range range) {
  const Update update(factors, gradient_scale);
  float *w = a.w_N.as<float>(), *m = a.m_N.as<float>(), *v = a.v_N.as<float>();
  const float* g = a.g_N.as<float>();
  FiniteCheck finite;
  int64_t i = range.begin;
  for (; i + kFloatLanes <= range.end; i += kFloatLanes) {
    const State state = update({load(w + i), load(m + i), load(v + i)}, load(g + i));
    store(state.w, w + i);
    store(state.m, m + i);
    store(state.v, v + i);
    finite.look(state);
    if (compute != nullptr) {
      store(state.w, compute + i);
      finite.look(load(compute + i));
    }
  }
  if (const int64_t n = range.end - i; n > 0) {
    const State state = update({load_some(w + i, n), load_some(m + i, n), load_some(v + i, n)},
                               load_some(g + i, n));
    store_some(state.w, w + i, n);
    store_some(state.m, m + i, n);
    store_some(state.v, v + i, n);
    finite.look(state);
    if (compute != nullptr) {
      store_some(state.w, compute + i, n);
      finite.look(load_some(compute + i, n));
    }
  }
  return finite.passed();
}

bool adamw_range(const AdamW& a, const AdamWFactors& factors, float gradient_scale, Range range) {
  if (a.compute_N.absent()) {
    return update_range<float>(a, factors, gradient_scale, nullptr, range);
  }
  bool finite = true;
  with_storage(a.compute_N.dtype(), [&](auto type) {
    using Compute = decltype(type);
    finite = update_range<Compute>(a, factors, gradient_scale, a.compute_N.as<Compute>(), range);
  });
  return finite;
}

}  // namespace
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {

void adamw_simd(Exec& exec, const AdamW& a) {
  constexpr int64_t kGrain = 4096;
  const int64_t n = a.w_N.num_elements();
  if (!a.apply.absent() && *a.apply.as<int32_t>() == 0) return;
  const AdamWFactors factors = adamw_factors(a);
  const float scale = a.gradient_scale.absent() ? 1.0f : *a.gradient_scale.as<float>();
  std::atomic<bool> finite = true;
  exec.device.pool().for_range(n, kGrain, [&](Range range, int) {
    if (!MEGA_CALL_SIMD(exec, adamw_range, a, factors, scale, range))
      finite.store(false, std::memory_order_relaxed);
  });
  if (!a.finite.absent()) *a.finite.as<int32_t>() = finite.load() ? 1 : 0;
}

}  // namespace megalith::kernels
#endif  // HWY_ONCE
