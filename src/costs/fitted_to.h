// SPDX-License-Identifier: Apache-2.0
// The published figures that efficiencies of the A100 are fitted to, and no others. What the model
// is judged by is in published_test.cpp alone, which no product source sees.
#pragma once

#include <span>

#include "costs/published_run.h"

namespace megalith::costs {

/// One layer of the 22B model: Korthikanti et al. 2022, table 4. Milliseconds; eight tensor ranks,
/// micro-batch 4.
struct LayerFigure {
  layers::Recompute recompute;
  bool sequence;
  double forward_ms, backward_ms;
};
std::span<const LayerFigure> layer_figures();
engine::Settings settings_of(const LayerFigure& figure);

/// Whole runs: Narayanan et al. 2021, table 2, rows of PTD parallelism. TFLOP/s of one device.
struct RunFigure {
  PublishedRun run;
  double teraflops;
};
std::span<const RunFigure> run_figures();

/// What a fit finds.
struct Fitted {
  double share = 0.8;  // of the 16-bit peak
  double depth = 300;
  double bandwidth_share = 0.8;
  double launch_seconds = 1e-5;
  double backward_overlap = 0.7;
  /// Times of Megatron-LM of 2021 (Narayanan et al.) over those of 2022 (Korthikanti et al.).
  double of_2021 = 1.05;
};
/// `cluster` with these values.
clusters::Cluster with(clusters::Cluster cluster, const Fitted& fitted);
/// The values that a cluster file has; of_2021 as it was fitted with them.
Fitted values_of(const clusters::Cluster& cluster);
inline constexpr double kOf2021 = 1.067;

/// ln(predicted / published) of every figure.
std::vector<double> residuals(const clusters::Cluster& cluster, const Fitted& fitted);
/// The values with the least sum of squares, from those of `cluster` on.
Fitted fit(const clusters::Cluster& cluster);

}  // namespace megalith::costs
