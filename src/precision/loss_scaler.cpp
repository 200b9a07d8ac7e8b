// SPDX-License-Identifier: Apache-2.0
#include "precision/loss_scaler.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_number.h"
#include "kernels/narrow/loss_scale.h"

namespace megalith::precision {
namespace {

bool is_power_of_two(float x) {
  int exponent = 0;
  return std::isnormal(x) && std::frexp(x, &exponent) == 0.5f;
}

}  // namespace

LossScaler::LossScaler(device::Device& device, const LossScaleOptions& options)
    : options_(options), device_(device) {
  for (const float x : {options.initial, options.growth, options.backoff, options.least})
    MEGA_CHECK(is_power_of_two(x), "a loss scale of {}, not a power of two", x);
  MEGA_CHECK(options.growth_interval >= 1 && options.hysteresis >= 1 &&
             options.initial >= options.least);
  device::Arena& arena = device.arena(device::MemoryClass::optimizer);
  scale_ = arena.tensor(DType::f32, Shape{1});
  steps_ = arena.tensor(DType::i32, Shape{2});
  host_ = {options.initial, {0, options.hysteresis}};
  write();
}

void LossScaler::write() {
  device_.copy_to_device(scale_, &host_.scale);
  device_.wait(device_.copy_to_device(steps_, host_.steps));
}

void LossScaler::update(kernels::Exec& exec, ConstView finite) {
  if (!options_.dynamic) return;
  kernels::update_loss_scale(exec, {.finite = finite,
                                    .scale = scale_,
                                    .steps = steps_,
                                    .growth = options_.growth,
                                    .backoff = options_.backoff,
                                    .interval = options_.growth_interval,
                                    .chances = options_.hysteresis,
                                    .least = options_.least});
}

void LossScaler::read() {
  device_.copy_to_host(&host_.scale, scale_.view);
  device_.wait(device_.copy_to_host(host_.steps, steps_.view));
}

nlohmann::json LossScaler::to_json() const {
  return {{"scale", host_.scale},
          {"good_steps", host_.steps[0]},
          {"overflows_until_smaller", host_.steps[1]}};
}

void LossScaler::restore(const nlohmann::json& json) {
  constexpr const char* kWhere = "checkpoint: its loss scale";
  constexpr int64_t kMost = 1 << 30;
  const auto count = [&](const char* key) {
    return static_cast<int32_t>(whole_number(json, key, kWhere, kMost));
  };
  const double scale = finite_number(json, "scale", kWhere);
  const bool fits = scale >= 0x1p-126 && scale <= 0x1p127;
  const State state{fits ? static_cast<float>(scale) : 0.0f,
                    {count("good_steps"), count("overflows_until_smaller")}};
  if (!is_power_of_two(state.scale) || static_cast<double>(state.scale) != scale)
    throw IntegrityError("{} is {}, not a power of two", kWhere, scale);
  if (!options_.dynamic) return;
  host_ = state;
  // The options may have changed since: a scale below the least one would never grow into it.
  host_.scale = std::max(host_.scale, options_.least);
  host_.steps[1] = std::min(host_.steps[1], options_.hysteresis);
  write();
}

}  // namespace megalith::precision
