// SPDX-License-Identifier: Apache-2.0
#include "kernels/narrow/scale_update.h"

#include <cmath>
#include <limits>

#include "kernels/elementary/run_chosen.h"

namespace megalith::kernels {
namespace {

/// Of tensor n; `count` lies between its magnitudes. Returns the amax to scale by, 0 for none.
float roll(float* history, int64_t length, int64_t count, AmaxChoice choice) {
  const float latest = history[0];
  if (latest == 0) return 0;
  float amax = 0;
  for (int64_t i = 0; i < length; ++i) {
    const float next = i + 1 < length ? history[(i + 1) * count] : latest;
    amax = std::fmax(amax, next);
    history[i * count] = i > 0 ? next : 0;
  }
  return choice == AmaxChoice::max ? amax : latest;
}

// A few thousand numbers a step: one loop on one thread is all that it needs.
void update_scales_loop(Exec&, const UpdateScales& a) {
  const int64_t length = a.history_HN.size(0), count = a.history_HN.size(1);
  const float reach = a.largest * std::ldexp(1.0f, -a.margin);
  for (int64_t n = 0; n < count; ++n) {
    const float amax = roll(a.history_HN.as<float>() + n, length, count, a.choice);
    float& scale = a.scale_N.as<float>()[n];
    if (std::isfinite(amax) && amax > 0) {
      scale = reach / amax;
      if (std::isinf(scale)) scale = std::numeric_limits<float>::max();
      if (a.power_of_two) scale = power_of_two_below(scale);
    }
    a.scale_inverse_N.as<float>()[n] = 1 / scale;
  }
}

constexpr Implementation<UpdateScales> kUpdateScales[] = {
    {"loop", [](const Exec&, const UpdateScales&) { return std::string_view(); },
     update_scales_loop},
};

void scale_of_amax_loop(Exec&, const ScaleOfAmax& a) {
  const float factor = scale_from_amax(*a.amax.as<float>(), a.rule);
  *a.factor.as<float>() = factor;
  *a.inverse.as<float>() = 1 / factor;
}

constexpr Implementation<ScaleOfAmax> kScaleOfAmax[] = {
    {"loop", [](const Exec&, const ScaleOfAmax&) { return std::string_view(); },
     scale_of_amax_loop},
};

}  // namespace

void update_scales(Exec& exec, const UpdateScales& arguments) {
  const View& history = arguments.history_HN;
  MEGA_CHECK(history.dtype() == DType::f32 && history.shape().num_dims() == 2 &&
                 history.size(0) > 0 && history.is_contiguous(),
             "a history of {} {}", history.dtype(), history.shape());
  check_vector(arguments.scale_N, DType::f32, history.size(1));
  check_vector(arguments.scale_inverse_N, DType::f32, history.size(1));
  const int64_t bytes =
      history.bytes() + arguments.scale_N.bytes() + arguments.scale_inverse_N.bytes();
  run_chosen<UpdateScales>(exec, "update_scales",
                           {static_cast<double>(history.num_elements()), bytes, bytes},
                           kUpdateScales, arguments);
}

void scale_of_amax(Exec& exec, const ScaleOfAmax& arguments) {
  check_vector(arguments.amax, DType::f32, 1);
  check_vector(arguments.factor, DType::f32, 1);
  check_vector(arguments.inverse, DType::f32, 1);
  constexpr int64_t kBytes = sizeof(float);
  run_chosen<ScaleOfAmax>(exec, "scale_of_amax", {1, kBytes, 2 * kBytes}, kScaleOfAmax, arguments);
}

}  // namespace megalith::kernels
