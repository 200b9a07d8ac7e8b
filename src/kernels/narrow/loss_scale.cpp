// SPDX-License-Identifier: Apache-2.0
#include "kernels/narrow/loss_scale.h"

#include <algorithm>
#include <cmath>

#include "kernels/elementary/run_chosen.h"

namespace megalith::kernels {
namespace {

void update(Exec&, const UpdateLossScale& a) {
  float& scale = *a.scale.as<float>();
  int32_t& good = a.steps.as<int32_t>()[0];
  int32_t& left = a.steps.as<int32_t>()[1];
  if (*a.finite.as<int32_t>() == 0) {
    good = 0;
    left = std::max(left - 1, 0);
    if (left == 0) scale = std::max(scale * a.backoff, a.least);
    return;
  }
  if (++good < a.interval) return;
  good = 0;
  left = a.chances;
  if (std::isfinite(scale * a.growth)) scale *= a.growth;
}

constexpr Implementation<UpdateLossScale> kUpdateLossScale[] = {
    {"loop", [](const Exec&, const UpdateLossScale&) { return std::string_view(); }, update},
};

}  // namespace

void update_loss_scale(Exec& exec, const UpdateLossScale& arguments) {
  check_vector(arguments.finite, DType::i32, 1);
  check_vector(arguments.scale, DType::f32, 1);
  check_vector(arguments.steps, DType::i32, 2);
  MEGA_CHECK(arguments.growth >= 1 && arguments.backoff > 0 && arguments.backoff <= 1 &&
             arguments.interval >= 1 && arguments.chances >= 1 && arguments.least >= 0);
  constexpr int64_t kBytes = 4 * sizeof(int32_t);
  run_chosen<UpdateLossScale>(exec, "update_loss_scale", {1, kBytes, kBytes}, kUpdateLossScale,
                              arguments);
}

}  // namespace megalith::kernels
