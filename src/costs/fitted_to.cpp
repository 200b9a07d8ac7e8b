// SPDX-License-Identifier: Apache-2.0
#include "costs/fitted_to.h"

#include <array>
#include <cmath>

#include "costs/pattern_search.h"
#include "costs/step_time.h"

namespace megalith::costs {

using layers::Recompute;

std::span<const LayerFigure> layer_figures() {
  static constexpr std::array<LayerFigure, 5> figures{{{Recompute::none, false, 7.7, 11.9},
                                                       {Recompute::none, true, 7.2, 11.8},
                                                       {Recompute::full, false, 7.7, 19.5},
                                                       {Recompute::selective, false, 7.7, 13.2},
                                                       {Recompute::selective, true, 7.2, 13.1}}};
  return figures;
}

engine::Settings settings_of(const LayerFigure& figure) {
  return settings_of(PublishedRun{.name = "22B",
                                  .heads = 64,
                                  .hidden = 6144,
                                  .layers = 48,
                                  .tensor = 8,
                                  .pipeline = 1,
                                  .chunks = 1,
                                  .devices = 8,
                                  .global_batch = 4,
                                  .micro_batch = 4,
                                  .recompute = figure.recompute,
                                  .sequence = figure.sequence});
}

std::span<const RunFigure> run_figures() {
  constexpr Recompute full = Recompute::full;
  static const std::array<RunFigure, 6> figures{{
      {{"174.6B", 96, 12288, 96, 8, 12, 1, 384, 1536, 1, full}, 153},
      {{"174.6B", 96, 12288, 96, 8, 12, 1, 768, 1536, 1, full}, 149},
      {{"174.6B", 96, 12288, 96, 8, 12, 1, 1536, 1536, 1, full}, 141},
      {{"529.6B", 128, 20480, 105, 8, 35, 1, 560, 2240, 1, full}, 171},
      {{"529.6B", 128, 20480, 105, 8, 35, 1, 1120, 2240, 1, full}, 167},
      {{"529.6B", 128, 20480, 105, 8, 35, 1, 2240, 2240, 1, full}, 159},
  }};
  return figures;
}

clusters::Cluster with(clusters::Cluster cluster, const Fitted& f) {
  for (clusters::ProductRate& rate : cluster.device.products) {
    if (rate.type != clusters::ProductType::bf16 && rate.type != clusters::ProductType::f16)
      continue;
    rate.share = f.share;
    rate.depth = f.depth;
  }
  cluster.device.bandwidth_share = f.bandwidth_share;
  cluster.device.launch_seconds = f.launch_seconds;
  cluster.execution.backward_overlap = f.backward_overlap;
  return cluster;
}

Fitted values_of(const clusters::Cluster& cluster) {
  const clusters::ProductRate& rate = cluster.known(clusters::ProductType::bf16);
  return {*rate.share,
          rate.depth,
          cluster.device.bandwidth_share,
          cluster.device.launch_seconds,
          cluster.execution.backward_overlap,
          kOf2021};
}

std::vector<double> residuals(const clusters::Cluster& cluster, const Fitted& fitted) {
  const clusters::Cluster changed = with(cluster, fitted);
  std::vector<double> residuals;
  for (const LayerFigure& figure : layer_figures()) {
    const engine::Settings s = settings_of(figure);
    const Passes layer = PartTimes(s, changed).layer(s, 0, figure.recompute);
    residuals.push_back(std::log(layer.forward.total() * 1e3 / figure.forward_ms));
    residuals.push_back(
        std::log((layer.backward.total() + layer.again.total()) * 1e3 / figure.backward_ms));
  }
  for (const RunFigure& figure : run_figures()) {
    const engine::Settings s = settings_of(figure.run);
    const double seconds = StepTimes(s, changed).least(s).seconds * fitted.of_2021;
    residuals.push_back(-std::log(sc21_teraflops(figure.run, seconds) / figure.teraflops));
  }
  return residuals;
}

Fitted fit(const clusters::Cluster& cluster) {
  const Fitted begin = values_of(cluster);
  const auto of = [](const std::vector<double>& x) {
    return Fitted{x[0], x[1], x[2], x[3], x[4], x[5]};
  };
  const auto error = [&](const std::vector<double>& x) {
    if (x[0] >= 1 || x[2] >= 1 || x[4] >= 1) return HUGE_VAL;
    double sum = 0;
    for (const double r : residuals(cluster, of(x))) sum += r * r;
    return sum;
  };
  return of(least_by_pattern({begin.share, begin.depth, begin.bandwidth_share, begin.launch_seconds,
                              begin.backward_overlap, begin.of_2021},
                             error));
}

}  // namespace megalith::costs
