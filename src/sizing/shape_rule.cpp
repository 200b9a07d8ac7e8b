// SPDX-License-Identifier: Apache-2.0
#include "sizing/shape_rule.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "engine/from_recipe.h"
#include "families/families.h"
#include "models/recipe_model.h"

namespace megalith::sizing {
namespace {

constexpr int64_t kMostLayers = 400, kMostHidden = 1 << 17;

/// The cost of a width's models is linear in their layers: two of them say it.
class Width {
 public:
  Width(const Task& task, int64_t hidden, int64_t heads)
      : hidden_(hidden), heads_(heads), two_(size_of(task, {2, hidden, heads})) {
    const SizedModel four = size_of(task, {4, hidden, heads});
    parameters_ = (four.parameters - two_.parameters) / 2;
    flops_ = (four.flops_per_token - two_.flops_per_token) / 2;
  }
  SizedModel with_layers(int64_t layers) const {
    return {{layers, hidden_, heads_},
            two_.parameters + (layers - 2) * parameters_,
            two_.flops_per_token + static_cast<double>(layers - 2) * flops_};
  }
  int64_t hidden() const { return hidden_; }

 private:
  int64_t hidden_, heads_;
  SizedModel two_;
  int64_t parameters_ = 0;  // of a layer
  double flops_ = 0;
};

std::vector<Width> widths(const Task& task) {
  std::vector<Width> all;
  for (int64_t hidden = 256; hidden <= kMostHidden;) {
    all.emplace_back(task, hidden, hidden / (hidden < 1536 ? 64 : 128));
    hidden += hidden < 1024 ? 256 : hidden < 2048 ? 512 : hidden < 32768 ? 1024 : 4096;
  }
  return all;
}

int64_t layer_step(int64_t hidden) {
  if (hidden < 4096) return hidden < 2048 ? 1 : 2;
  if (hidden < 16384) return hidden < 8192 ? 4 : 8;
  return 16;
}

double cost_of(const SizedModel& model, Cost cost) {
  return cost == Cost::parameters ? static_cast<double>(model.parameters) : model.flops_per_token;
}

/// How far a model's depth is from fitting its width, and twice the part of the cost that it leaves
/// unused.
double misfit(const SizedModel& model, double used) {
  const double fitting = std::max(fitting_layers(static_cast<double>(model.shape.hidden)), 1.0);
  return std::abs(std::log(static_cast<double>(model.shape.layers) / fitting)) + 2 * (1 - used);
}

engine::Settings settings_of(const Task& task, const Shape& shape) {
  const config::Recipe recipe = config::parse_recipe(
      model_yaml(task, shape) + fmt::format("train: {{objective: {}, steps: 1, global_batch: 1}}\n",
                                            objective_of(task.family)),
      "the sized model", std::span<const std::string>(), models::complete);
  return engine::settings_of(recipe, 0);
}

}  // namespace

double fitting_layers(double hidden) { return (std::log(hidden) - 5.039) / 0.0555; }

std::string objective_of(const std::string& name) {
  const models::ModelSpec model = models::family_named(name, "--family").make({}, name);
  if (model.is_encoder_decoder()) return "spans";
  return model.is_causal() ? "causal" : "masked";
}

std::string model_yaml(const Task& task, const Shape& shape) {
  return fmt::format(
      "model: {{family: {}, layers: {}, hidden: {}, heads: {}, context: {}, vocab: {}}}\n",
      task.family, shape.layers, shape.hidden, shape.heads, task.sequence, task.vocab);
}

SizedModel size_of(const Task& task, const Shape& shape) {
  const engine::Settings settings = settings_of(task, shape);
  const double flops = training_flops(forward_flops(settings), task.recompute);
  return {shape, settings.model.num_parameters(),
          flops / static_cast<double>(settings.sequence_length())};
}

SizedModel best_shape(const Task& task, Cost cost, double most) {
  constexpr double kUsed = 0.9;
  SizedModel fitting, dearest;
  double least = 0;
  for (const Width& width : widths(task)) {
    const int64_t step = layer_step(width.hidden());
    for (int64_t layers = step; layers <= kMostLayers; layers += step) {
      const SizedModel model = width.with_layers(layers);
      const double value = cost_of(model, cost);
      if (value > most) break;
      if (dearest.shape.layers == 0 || value > cost_of(dearest, cost)) dearest = model;
      const double worse = misfit(model, value / most);
      if (value < kUsed * most || (fitting.shape.layers > 0 && worse >= least)) continue;
      fitting = model;
      least = worse;
    }
  }
  return fitting.shape.layers > 0 ? fitting : dearest;
}

}  // namespace megalith::sizing
