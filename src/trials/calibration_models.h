// SPDX-License-Identifier: Apache-2.0
// Small models whose steps run every kernel in several shapes: decoders, encoders and an
// encoder-decoder, of several widths, lengths and micro-batches.
#pragma once

#include <string>
#include <vector>

#include "clusters/cluster.h"
#include "engine/settings.h"

namespace megalith::trials {

struct CalibrationModel {
  std::string name;  // for people
  clusters::ProductType type = clusters::ProductType::f32;
  engine::Settings settings;
};

/// Of one rank.
std::vector<CalibrationModel> calibration_models();
/// Of two ranks: what one alone does not run.
std::vector<CalibrationModel> calibration_layouts();

}  // namespace megalith::trials
