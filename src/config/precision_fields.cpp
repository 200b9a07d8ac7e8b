// SPDX-License-Identifier: Apache-2.0
// The keys of precision, with their meaning and range.
#include "config/precision_section.h"

namespace megalith::config {
namespace {

using settings::above;
using settings::between;
using settings::Constraint;

constexpr Constraint kNumber = between(0, 9e15);  // exact in a double
constexpr Constraint kScale = between(1, kLargestLossScale);

}  // namespace

void PrecisionSection::visit(FieldVisitor& v) {
  v.field("parameters", parameters,
          "storage of weights (with f32 master weights when bf16 or f16)");
  v.field(
      "compute", compute,
      "storage of activations; sums are f32 (Micikevicius et al. 2018); fp8: bf16, and products "
      "of layers in 8 bits (Micikevicius et al. 2022)");
  v.field(
      "loss_scale", loss_scale,
      "what losses are multiplied by before they are differentiated, with compute: f16: dynamic, "
      "or a power of two");
  v.section("fp16", fp16, "A dynamic loss scale, with compute: f16.");
  v.section("fp8", fp8, "Products in 8 bits, with compute: fp8.");
}

void Fp16Section::visit(FieldVisitor& v) {
  v.field("initial_scale", initial_scale, "the first loss scale, a power of two", kScale);
  v.field("growth_interval", growth_interval,
          "steps in a row without an overflow after which it is doubled", between(1, 1 << 30));
  v.field("hysteresis", hysteresis,
          "how many overflows since it was last doubled halve it, as each later one does",
          between(1, 1 << 30));
  v.field("min_scale", min_scale, "it is not halved below this, a power of two", kScale);
}

void Fp8Section::visit(FieldVisitor& v) {
  v.field("recipe", recipe,
          "scales: delayed, of a tensor, from earlier steps; current, of a sample's tensor, from "
          "itself; block, of 128 numbers (of weights 128 x 128); mx, of 32; unscaled: none, to see "
          "what "
          "they are for");
  v.field("format", format,
          "codes; hybrid: e4m3, and e5m2 for gradients; by_recipe: e4m3 with block and mx, else "
          "hybrid");
  v.field("history", history, "steps whose largest magnitude makes a scale (delayed)",
          between(1, 1 << 20));
  v.field("amax", amax, "which magnitude of the history does (delayed)");
  v.field("margin", margin, "scales leave this many powers of two free (delayed)", between(0, 64));
  v.field("weight_gradients", weight_gradients, "false: gradients of weights are products of bf16");
  v.field("first_layers", first_layers, "first layers whose products are of bf16", kNumber);
  v.field("last_layers", last_layers, "last layers whose products are of bf16", kNumber);
  v.section("guard", guard, "Checks against 16 bits, on the same samples and weights.");
}

void Fp8GuardSection::visit(FieldVisitor& v) {
  v.field("every", every, "steps between checks; 0: none", kNumber);
  v.field("warn", warn, "relative difference of the losses that is said", above(0));
  v.field("trip", trip, "relative difference of the losses beyond which a check counts", above(0));
  v.field("cosine", cosine, "cosine of the gradients below which a check counts", between(-1, 1));
  v.field("saturated", saturated,
          "share of an operand's elements beyond the largest code above which a check counts "
          "(not with block and mx)",
          between(0, 1));
  v.field("flushed", flushed,
          "share of an operand's elements that become 0 above which a check counts (not with "
          "block and mx)",
          between(0, 1));
  v.field("patience", patience, "checks in a row that count until products run in 16 bits",
          between(1, 1000000));
  v.field("quiet", quiet, "steps after which they are in 8 bits again", between(1, 9e15));
  v.field("fallback", fallback,
          "which do: those of the layer that is furthest beyond saturated or flushed, or all");
}

}  // namespace megalith::config
