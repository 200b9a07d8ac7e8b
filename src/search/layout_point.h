// SPDX-License-Identifier: Apache-2.0
// A layout as the search tries it: what of a recipe may be chosen to train the same model on the
// same batch, and which of these a number of devices allows.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "config/recipe.h"
#include "engine/settings.h"

namespace megalith::search {

struct LayoutPoint {
  int tensor = 1;
  int pipeline = 1;
  int data = 1;
  bool sequence = false;
  int chunks = 1;
  int zero = 0;
  int64_t micro_batch = 1;
  config::PipelineSchedule schedule = config::PipelineSchedule::one_forward_one_backward;
  layers::RecomputePolicy recompute = {};
  config::Compute compute = config::Compute::bf16;

  /// Equal in what cuts the work: the rest are variants of one layout.
  bool is_variant_of(const LayoutPoint& other) const;
  /// "tensor 8 x pipeline 8 x data 16, 3 chunks, micro-batch 1, sequence, selective, zero 1"
  std::string text() const;
  friend bool operator==(const LayoutPoint& a, const LayoutPoint& b);
};

/// The point of settings, and settings at a point: the canonical data shards become as many as the
/// data ranks where they are one (which changes the order of sums, so the bits).
LayoutPoint point_of(const engine::Settings& settings);
engine::Settings settings_at(const engine::Settings& base, const LayoutPoint& point);
/// The same of settings that are `base` at another point, without a copy of the model.
void move_to(engine::Settings& settings, const engine::Settings& base, const LayoutPoint& point);
/// The same of a recipe.
config::Recipe recipe_at(config::Recipe base, const LayoutPoint& point);

/// In how many keys of a recipe they differ; a change of precision counts ten.
int distance(const LayoutPoint& a, const LayoutPoint& b);
/// The keys to set, to get from one to the other: "parallel.tensor=8 memory.recompute=full".
std::string changes_text(const LayoutPoint& from, const LayoutPoint& to);

/// What cuts the model and the devices: everything else is tried inside of it.
struct Space {
  std::vector<LayoutPoint> points;         // recompute and zero left at none; compute as in `base`
  std::map<std::string, int64_t> refused;  // layouts that a rule excludes, by what would allow them
};
Space space_of(const engine::Settings& base, int64_t devices);

}  // namespace megalith::search
