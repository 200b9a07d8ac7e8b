// SPDX-License-Identifier: Apache-2.0
// The four steps of the loss in vectors, threads over rows. Callers bring rows in chunks that stay
// in the cache, so that only the first step meets memory.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cross_entropy/cross_entropy_cpu.cpp"
// clang-format off
#include "kernels/elementary/targets.h"
#include "hwy/foreach_target.h"
// clang-format on
#include <cmath>

#include "kernels/cross_entropy/cross_entropy_lists.h"
#include "kernels/elementary/dispatch.h"
#include "kernels/elementary/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megalith::kernels::HWY_NAMESPACE {
namespace {

/// NaN when any of the n numbers is one.
float max_of_row(const float* x, int64_t n) {
  const FloatTag d;
  FloatVec max = hn::Set(d, -INFINITY);
  auto nan = hn::IsNaN(max);
  const auto take = [&](FloatVec v) HWY_ATTR {
    nan = hn::Or(nan, hn::IsNaN(v));
    max = hn::Max(max, v);
  };
  int64_t i = 0;
  for (; i + kFloatLanes <= n; i += kFloatLanes) take(load(x + i));
  if (i < n) {
    take(hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(n - i)), load_some(x + i, n - i),
                        hn::Set(d, -INFINITY)));
  }
  return hn::AllFalse(d, nan) ? hn::GetLane(hn::MaxOfLanes(d, max)) : NAN;
}

void row_max_rows(const RowMax& a, int64_t begin, int64_t end) {
  const int64_t valid = valid_columns(a.vocab, a.logits_RV.size(1));
  for (int64_t r = begin; r < end; ++r) {
    a.max_R.as<float>()[r] = max_of_row(a.logits_RV.row<float>(r), valid);
  }
}

/// exp(x - max) of n numbers to `out` (or nowhere); their sum in 16 lanes.
float exp_shard(const float* x, int64_t n, float max, float* out) {
  const FloatVec shift = hn::Set(FloatTag(), max);
  Vec16 sum = set16(0.0f);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int part = 0; part < kParts; ++part) {
      const int64_t at = i + part * kFloatLanes;
      const FloatVec e = elementary::exp<SimdOps>(hn::Sub(load(x + at), shift));
      if (out != nullptr) store(e, out + at);
      sum.part[part] = hn::Add(sum.part[part], e);
    }
  }
  if (i < n) {
    Vec16 tail = load16_some(x + i, n - i);
    for (int part = 0; part < kParts; ++part) {
      tail.part[part] = elementary::exp<SimdOps>(hn::Sub(tail.part[part], shift));
    }
    if (out != nullptr) store16_some(tail, out + i, n - i);
    sum = add16(sum, first16(tail, n - i));
  }
  return tree_sum16(sum);
}

void exp_sums_rows(const ExpSums& a, int64_t begin, int64_t end) {
  const int64_t columns = a.logits_RV.size(1), width = columns / a.vocab.shards;
  const int64_t valid = valid_columns(a.vocab, columns);
  for (int64_t r = begin; r < end; ++r) {
    const float* logits = a.logits_RV.row<float>(r);
    float* exps = a.exps_RV.absent() ? nullptr : a.exps_RV.row<float>(r);
    const int64_t target = local_target(a.vocab, columns, a.targets_R.as<int32_t>()[r]);
    a.target_R.as<float>()[r] = target < 0 ? 0.0f : logits[target];
    for (int64_t shard = 0; shard < a.vocab.shards; ++shard) {
      const int64_t first = shard * width;
      const int64_t count = std::clamp<int64_t>(valid - first, 0, width);
      a.sums_PR.row<float>(shard)[r] = exp_shard(logits + first, count, a.max_R.as<float>()[r],
                                                 exps == nullptr ? nullptr : exps + first);
      if (exps != nullptr) std::fill(exps + first + count, exps + first + width, 0.0f);
    }
  }
}

void row_loss_part(const RowLoss& a, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; r += kFloatLanes) {
    const int64_t n = std::min(kFloatLanes, end - r);
    const FloatVec log_sum = elementary::log<SimdOps>(load_some(a.sum_R.as<float>() + r, n));
    const FloatVec lse = hn::Add(load_some(a.max_R.as<float>() + r, n), log_sum);
    store_some(hn::Sub(lse, load_some(a.target_R.as<float>() + r, n)), a.loss_R.as<float>() + r, n);
    if (!a.lse_R.absent()) store_some(lse, a.lse_R.as<float>() + r, n);
  }
}

/// 1 - (l / c)^2 of capped logits.
FloatVec cap_slope(FloatVec capped, FloatVec inverse) {
  const FloatVec t = hn::Mul(capped, inverse);
  return hn::NegMulAdd(t, t, hn::Set(FloatTag(), 1.0f));
}
float at_slope(float gradient, const float* capped, int64_t column, float inverse) {
  if (capped == nullptr) return gradient;
  const FloatTag d;
  return gradient * hn::GetLane(cap_slope(hn::Set(d, capped[column]), hn::Set(d, inverse)));
}

/// `capped`: the logits, with a softcap whose inverse is given; else null.
template <class T>
void gradient_row(const float* exps, const float* capped, float inverse, int64_t valid,
                  int64_t columns, float factor, float weight, int64_t target, T* out) {
  if (weight == 0.0f) {
    std::fill(out, out + columns, T{});
    return;
  }
  // Read before the row is overwritten, which may be the same memory.
  const float at_target =
      target < 0 ? 0.0f : at_slope(exps[target] * factor - weight, capped, target, inverse);
  const FloatVec by = hn::Set(FloatTag(), factor), inverses = hn::Set(FloatTag(), inverse);
  int64_t i = 0;
  if (capped != nullptr) {
    for (; i + kFloatLanes <= valid; i += kFloatLanes) {
      const FloatVec slope = cap_slope(load(capped + i), inverses);
      store(hn::Mul(hn::Mul(load(exps + i), by), slope), out + i);
    }
    if (i < valid) {
      const FloatVec slope = cap_slope(load_some(capped + i, valid - i), inverses);
      store_some(hn::Mul(hn::Mul(load_some(exps + i, valid - i), by), slope), out + i, valid - i);
    }
  } else {
    for (; i + kFloatLanes <= valid; i += kFloatLanes) store(hn::Mul(load(exps + i), by), out + i);
    if (i < valid) store_some(hn::Mul(load_some(exps + i, valid - i), by), out + i, valid - i);
  }
  std::fill(out + valid, out + columns, T{});
  if (target < 0) return;
  if constexpr (std::is_same_v<T, float>) {
    out[target] = at_target;
  } else if constexpr (std::is_same_v<T, f16_t>) {
    out[target] = to_f16(at_target);
  } else {
    out[target] = to_bf16(at_target);
  }
}

void gradient_rows(const LossGradient& a, int64_t begin, int64_t end) {
  const int64_t columns = a.exps_RV.size(1), valid = valid_columns(a.vocab, columns);
  for (int64_t r = begin; r < end; ++r) {
    const float weight = a.weight_R.as<float>()[r] * a.scale * a.logits_scale;
    const float sum = a.sum_R.as<float>()[r];
    const float lse =
        a.max_R.as<float>()[r] + hn::GetLane(elementary::log<SimdOps>(hn::Set(FloatTag(), sum)));
    const float factor = weight / sum * (1.0f + 2.0f * a.z_loss * lse);
    const int64_t target = local_target(a.vocab, columns, a.targets_R.as<int32_t>()[r]);
    const float* exps = a.exps_RV.row<float>(r);
    const float* capped = a.logits_RV.absent() ? nullptr : a.logits_RV.row<float>(r);
    const float inverse = capped == nullptr ? 0.0f : 1.0f / a.softcap;
    const auto write = [&](auto* out) {
      gradient_row(exps, capped, inverse, valid, columns, factor, weight, target, out);
    };
    if (a.dlogits_RV.dtype() == DType::bf16) {
      write(a.dlogits_RV.row<bf16_t>(r));
    } else if (a.dlogits_RV.dtype() == DType::f16) {
      write(a.dlogits_RV.row<f16_t>(r));
    } else {
      write(a.dlogits_RV.row<float>(r));
    }
  }
}

}  // namespace
}  // namespace megalith::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megalith::kernels {

void row_max_vector(Exec& exec, const RowMax& a) {
  exec.device.pool().for_range(a.logits_RV.size(0), 1, [&](Range part, int) {
    MEGA_CALL_SIMD(exec, row_max_rows, a, part.begin, part.end);
  });
}

void exp_sums_vector(Exec& exec, const ExpSums& a) {
  exec.device.pool().for_range(a.logits_RV.size(0), 1, [&](Range part, int) {
    MEGA_CALL_SIMD(exec, exp_sums_rows, a, part.begin, part.end);
  });
}

void row_loss_vector(Exec& exec, const RowLoss& a) {
  exec.device.pool().for_range(a.max_R.num_elements(), 256, [&](Range part, int) {
    MEGA_CALL_SIMD(exec, row_loss_part, a, part.begin, part.end);
  });
}

void loss_gradient_vector(Exec& exec, const LossGradient& a) {
  exec.device.pool().for_range(a.exps_RV.size(0), 1, [&](Range part, int) {
    MEGA_CALL_SIMD(exec, gradient_rows, a, part.begin, part.end);
  });
}

}  // namespace megalith::kernels
#endif
