// SPDX-License-Identifier: Apache-2.0
// What a recipe says of the number formats that it trains in (precision/).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/choices.h"

namespace megalith::config {

/// Checks of products in 8 bits against 16.
struct Fp8GuardSection {
  int64_t every = 0;  // steps; 0: never
  double warn = 0.0025;
  double trip = 0.005;
  double cosine = 0.9;
  double saturated = 0.01;
  double flushed = 0.3;
  int64_t patience = 3;
  int64_t quiet = 1000;
  Fp8Fallback fallback = Fp8Fallback::layer;
  void visit(FieldVisitor& v);
  friend bool operator==(const Fp8GuardSection&, const Fp8GuardSection&) = default;
};

/// Of precision.compute: fp8.
struct Fp8Section {
  Fp8Recipe recipe = Fp8Recipe::delayed;
  Fp8Format format = Fp8Format::by_recipe;
  int64_t history = 1024;
  Fp8Amax amax = Fp8Amax::max;
  int64_t margin = 0;
  bool weight_gradients = true;
  int64_t first_layers = 0;
  int64_t last_layers = 0;
  Fp8GuardSection guard;
  void visit(FieldVisitor& v);
  friend bool operator==(const Fp8Section&, const Fp8Section&) = default;
};

/// Of a recipe; one that follows gradients may become larger.
inline constexpr double kLargestLossScale = 4294967296;

/// Of precision.compute: f16 with a dynamic loss scale.
struct Fp16Section {
  double initial_scale = 65536;
  int64_t growth_interval = 2000;
  int64_t hysteresis = 1;
  double min_scale = 1;
  void visit(FieldVisitor& v);
  friend bool operator==(const Fp16Section&, const Fp16Section&) = default;
};

struct PrecisionSection {
  Precision parameters = Precision::f32;
  Compute compute = Compute::f32;
  std::string loss_scale = "dynamic";  // or a number
  Fp16Section fp16;
  Fp8Section fp8;
  void visit(FieldVisitor& v);

  /// What loss_scale says: nothing when it is dynamic, NaN when it is no number either.
  std::optional<double> fixed_scale() const;
};

}  // namespace megalith::config
