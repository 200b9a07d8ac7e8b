// SPDX-License-Identifier: Apache-2.0
// What the keys of precision fit with.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "config/rules.h"

namespace megalith::config {
namespace {

bool is_power_of_two(double x) {
  int exponent = 0;
  return x > 0 && std::isfinite(x) && std::frexp(x, &exponent) == 0.5;
}

void scale_rules(const Recipe& r, Faults& faults) {
  const PrecisionSection& p = r.precision;
  const std::optional<double> fixed = p.fixed_scale();
  const auto power = [&](double scale, const char* key) {
    if (scale >= 1 && !is_power_of_two(scale))
      add(faults, key, {},
          fmt::format("{} is not a power of two, and gradients would be rounded; set {} or {}",
                      scale, std::exp2(std::floor(std::log2(scale))),
                      std::exp2(std::ceil(std::log2(scale)))));
  };
  if (fixed && !(*fixed >= 1 && *fixed <= kLargestLossScale)) {
    add(faults, "precision.loss_scale", {},
        fmt::format("must be dynamic, or a power of two from 1 to {}, not {:?}", kLargestLossScale,
                    p.loss_scale));
  } else if (fixed) {
    power(*fixed, "precision.loss_scale");
  }
  power(p.fp16.initial_scale, "precision.fp16.initial_scale");
  power(p.fp16.min_scale, "precision.fp16.min_scale");
  if (p.fp16.initial_scale < p.fp16.min_scale)
    add(faults, "precision.fp16.initial_scale", {"precision.fp16.min_scale"},
        fmt::format("{} is below min_scale {}", p.fp16.initial_scale, p.fp16.min_scale));
  if (fixed && p.fp16 != Fp16Section{})
    add(faults, "precision.fp16", {"precision.loss_scale"},
        fmt::format(
            "has no effect with precision.loss_scale: {}; take one of them out of the recipe",
            p.loss_scale));
}

void fp16_rules(const Recipe& r, Faults& faults) {
  const PrecisionSection& p = r.precision;
  const bool is_f16 = p.compute == Compute::f16;
  const bool mixed = is_f16 ? p.parameters == Precision::bf16
                            : p.parameters == Precision::f16 && p.compute != Compute::f32;
  if (mixed)
    add(faults, "precision.parameters", {"precision.compute"},
        fmt::format("{} with precision.compute: {} mixes two formats of 16 bits; set {} or f32",
                    p.parameters, p.compute, is_f16 ? "f16" : "bf16"));
  if (is_f16) return scale_rules(r, faults);
  const auto unused = [&](bool is_default, const char* key) {
    if (!is_default)
      add(faults, key, {"precision.compute"},
          fmt::format("has no effect with precision.compute: {}; take it out of the recipe, or set "
                      "precision.compute: f16",
                      p.compute));
  };
  unused(p.loss_scale == PrecisionSection{}.loss_scale, "precision.loss_scale");
  unused(p.fp16 == Fp16Section{}, "precision.fp16");
}

void fp8_rules(const Recipe& r, Faults& faults) {
  const Fp8Section& f = r.precision.fp8;
  if (r.precision.compute != Compute::fp8) {
    if (f != Fp8Section{})
      add(faults, "precision.fp8", {"precision.compute"},
          fmt::format("has no effect with precision.compute: {}; take it out of the recipe, or set "
                      "precision.compute: fp8",
                      r.precision.compute));
    return;
  }
  const Fp8Section defaults;
  const auto of_delayed = [&](bool is_default, const char* key) {
    if (!is_default && f.recipe != Fp8Recipe::delayed)
      add(faults, key, {"precision.fp8.recipe"},
          fmt::format("has no effect with precision.fp8.recipe: {}; take it out of the recipe",
                      f.recipe));
  };
  of_delayed(f.history == defaults.history, "precision.fp8.history");
  of_delayed(f.amax == defaults.amax, "precision.fp8.amax");
  of_delayed(f.margin == defaults.margin, "precision.fp8.margin");
  const auto left_out = checked_add(f.first_layers, f.last_layers);
  if (!left_out || (*left_out >= r.model.layers + r.model.decoder_layers && !r.tunes()))
    add(faults, "precision.fp8.first_layers", {"precision.fp8.last_layers", "model.layers"},
        fmt::format("first_layers {} and last_layers {} leave no layer in 8 bits; make them "
                    "smaller, or set precision.compute: bf16",
                    f.first_layers, f.last_layers));
}

}  // namespace

std::optional<double> PrecisionSection::fixed_scale() const {
  if (loss_scale == PrecisionSection{}.loss_scale) return std::nullopt;
  double value = 0;
  const char* const end = loss_scale.data() + loss_scale.size();
  const auto [rest, error] = std::from_chars(loss_scale.data(), end, value);
  const bool whole = error == std::errc() && rest == end;
  return whole ? value : std::numeric_limits<double>::quiet_NaN();
}

void precision_rules(const Recipe& r, Faults& faults) {
  fp16_rules(r, faults);
  fp8_rules(r, faults);
}

}  // namespace megalith::config
