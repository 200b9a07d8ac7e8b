// SPDX-License-Identifier: Apache-2.0
#include "kernels/rotary/rotary.h"

#include "kernels/elementary/run_chosen.h"
#include "kernels/rotary/implementations.h"

namespace megalith::kernels {
namespace {

// Per angle, counted in math/elementary_sin_cos-inl.h, and per pair of elements.
constexpr double kFlopsOfAngle = 40, kFlopsOfPair = 6;

constexpr Implementation<RotaryAngles> kAngles[] = {
    {"simd", [](const Exec&, const RotaryAngles& a) { return refuse_wide({a.angles_TA}); },
     rotary_angles_simd},
    {"reference", [](const Exec&, const RotaryAngles&) { return std::string_view(); },
     rotary_angles_reference},
};
constexpr Implementation<RotaryApply> kApply[] = {
    {"simd", [](const Exec&, const RotaryApply& a) { return refuse_wide({a.angles_TA}); },
     rotary_apply_simd},
    {"reference", [](const Exec&, const RotaryApply&) { return std::string_view(); },
     rotary_apply_reference},
};

void check_angles(const ConstView& angles_TA, int64_t rows) {
  MEGA_CHECK(angles_TA.dtype() == DType::f32 || angles_TA.dtype() == DType::f64, "angles are {}",
             angles_TA.dtype());
  MEGA_CHECK(
      angles_TA.shape().num_dims() == 2 && angles_TA.size(0) == rows && angles_TA.size(1) % 2 == 0,
      "angles are {} for {} rows", angles_TA.shape(), rows);
}

}  // namespace

void rotary_angles(Exec& exec, const RotaryAngles& a) {
  const int64_t pairs = a.frequencies.pairs, rows = a.position_T.num_elements();
  MEGA_CHECK(pairs >= 1 && pairs <= RotaryFrequencies::kMaxPairs, "{} pairs", pairs);
  check_vector(a.position_T, DType::i32, rows);
  check_angles(a.angles_TA, rows);
  MEGA_CHECK_EQ(a.angles_TA.size(1), 2 * pairs);
  const device::Work work{kFlopsOfAngle * static_cast<double>(rows * pairs), a.position_T.bytes(),
                          a.angles_TA.bytes()};
  run_chosen<RotaryAngles>(exec, "rotary_angles", work, kAngles, a);
}

void rotary_apply(Exec& exec, const RotaryApply& a) {
  const int64_t rows = a.x_TND.num_rows, pairs = a.angles_TA.size(1) / 2;
  check_angles(a.angles_TA, rows);
  MEGA_CHECK(is_narrow(a.x_TND.dtype) || a.x_TND.dtype == DType::f64, "x is {}", a.x_TND.dtype);
  MEGA_CHECK((a.x_TND.dtype == DType::f64) == (a.angles_TA.dtype() == DType::f64),
             "x is {}, angles are {}", a.x_TND.dtype, a.angles_TA.dtype());
  MEGA_CHECK(2 * pairs <= a.x_TND.head_size, "{} pairs in heads of {}", pairs, a.x_TND.head_size);
  const int64_t turned = rows * a.x_TND.num_heads * pairs;
  const int64_t bytes = 2 * turned * bytes_of(a.x_TND.dtype);
  const device::Work work{kFlopsOfPair * static_cast<double>(turned), bytes + a.angles_TA.bytes(),
                          bytes};
  run_chosen<RotaryApply>(exec, "rotary_apply", work, kApply, a);
}

}  // namespace megalith::kernels
