// SPDX-License-Identifier: Apache-2.0
#include "sizing/sized_recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/integer.h"
#include "models/recipe_model.h"

namespace megalith::sizing {
namespace {

/// Warm-up and rates as NeMo has them: 0.15 % of the steps, down to a tenth.
std::string training_yaml(const Task& task, const RecipeOptions& o, int64_t data) {
  const int64_t batch = round_up(std::max<int64_t>(o.global_batch, 1), data);
  const auto steps =
      static_cast<int64_t>(std::ceil(o.tokens / static_cast<double>(batch * task.sequence)));
  const int64_t warmup = std::max<int64_t>(1, std::llround(0.0015 * static_cast<double>(steps)));
  return fmt::format(
      "train: {{objective: {}, tokens: {}, global_batch: {}, micro_batch: 1}}\n"
      "optimizer: {{lr: {}, min_lr: {}, schedule: cosine, warmup_steps: {}}}\n"
      "precision: {{parameters: bf16, compute: bf16}}\n"
      "memory: {{recompute: {}}}\n"
      "checkpoint: {{every: {}}}\n",
      objective_of(task.family), static_cast<int64_t>(o.tokens), batch, o.lr, o.lr / 10, warmup,
      settings::name_of(task.recompute), std::max<int64_t>(1, steps / 200));
}

std::string layout_yaml(const Task& task, int64_t tensor, int64_t pipeline, int64_t data) {
  return fmt::format(
      "parallel: {{tensor: {}, pipeline: {}, data: {}, sequence: {}, zero: {}, data_shards: {}}}\n",
      tensor, pipeline, data,
      tensor > 1 && task.sequence % 8 == 0 && objective_of(task.family) != "spans",
      data > 1 ? 1 : 0, data);
}

config::Recipe parsed(const std::string& text) {
  return config::parse_recipe(text, "the sized recipe", std::span<const std::string>(),
                              models::complete);
}

int64_t data_ranks(int64_t gpus, int64_t tensor, int64_t pipeline) {
  if (gpus % (tensor * pipeline) != 0)
    throw UserError(
        "--gpus {} is no multiple of {} tensor x {} pipeline ranks that a model takes; give a "
        "multiple of {}",
        gpus, tensor, pipeline, tensor * pipeline);
  return gpus / (tensor * pipeline);
}

/// Tensor and pipeline ranks of one model, from few ranks to many, more tensor ranks first.
std::vector<std::pair<int64_t, int64_t>> model_layouts(const Shape& shape, int64_t gpus) {
  std::vector<std::pair<int64_t, int64_t>> all;
  for (int64_t tensor = 1; tensor <= 8; tensor *= 2) {
    if (shape.heads % tensor != 0) continue;
    for (int64_t pipeline = 1; pipeline <= shape.layers; ++pipeline)
      if (shape.layers % pipeline == 0 && gpus % (tensor * pipeline) == 0)
        all.emplace_back(tensor, pipeline);
  }
  std::ranges::stable_sort(all, {}, [](const auto& layout) {
    return std::pair(layout.first * layout.second, layout.second);
  });
  return all;
}

}  // namespace

int64_t usual_batch(int64_t parameters, int64_t sequence) {
  const int64_t tokens = parameters < 1'300'000'000     ? 1 << 19
                         : parameters < 6'700'000'000   ? 1 << 20
                         : parameters < 100'000'000'000 ? 1 << 21
                                                        : 1 << 22;
  return std::max<int64_t>(1, tokens / sequence);
}

double usual_learning_rate(int64_t parameters) {
  struct Row {
    double parameters, rate;
  };
  constexpr Row kRows[] = {{125e6, 6e-4},   {350e6, 3e-4},   {760e6, 2.5e-4}, {1.3e9, 2e-4},
                           {2.7e9, 1.6e-4}, {6.7e9, 1.2e-4}, {13e9, 1e-4},    {175e9, 0.6e-4}};
  const double n = std::clamp(static_cast<double>(parameters), kRows[0].parameters,
                              kRows[std::size(kRows) - 1].parameters);
  size_t above = 1;
  while (n > kRows[above].parameters) ++above;
  const Row& a = kRows[above - 1];
  const Row& b = kRows[above];
  const double part = std::log(n / a.parameters) / std::log(b.parameters / a.parameters);
  return a.rate * std::pow(b.rate / a.rate, part);
}

config::Recipe sized_recipe(const Task& task, const SizedModel& model, const RecipeOptions& options,
                            int64_t tensor, int64_t pipeline) {
  const int64_t data = data_ranks(options.gpus, tensor, pipeline);
  return parsed(model_yaml(task, model.shape) + training_yaml(task, options, data) +
                layout_yaml(task, tensor, pipeline, data));
}

config::Recipe nemo_recipe(const NemoShape& shape, const NemoBase& base, NemoFamily family,
                           const Task& task, const RecipeOptions& options) {
  const int64_t data = data_ranks(options.gpus, base.tensor, base.pipeline);
  std::string model = model_yaml(task, {shape.layers, shape.hidden, shape.heads});
  std::string more;
  if (shape.ffn > 0) more += fmt::format(", ffn: {}", shape.ffn);
  if (shape.head_dim > 0) more += fmt::format(", head_dim: {}", shape.head_dim);
  if (family == NemoFamily::t5) more += ", mlp: gated, activation: gelu_tanh";
  model.insert(model.rfind('}'), more);
  return parsed(model + training_yaml(task, options, data) +
                layout_yaml(task, base.tensor, base.pipeline, data));
}

config::Recipe fitting_recipe(const Task& task, const SizedModel& model,
                              const RecipeOptions& options, int64_t memory,
                              const std::function<int64_t(const config::Recipe&)>& planned) {
  int64_t bytes = 0;
  for (const auto& [tensor, pipeline] : model_layouts(model.shape, options.gpus)) {
    const config::Recipe recipe = sized_recipe(task, model, options, tensor, pipeline);
    // No plan is below what its parameters take: weights, gradients, spread masters and moments.
    const double state = static_cast<double>(model.parameters / (tensor * pipeline)) *
                         (6 + 12 / static_cast<double>(recipe.parallel.data));
    bytes = state > static_cast<double>(memory) ? static_cast<int64_t>(state) : planned(recipe);
    if (bytes <= memory) return recipe;
  }
  throw UserError(
      "no layout of {} GPUs brings the model of {} parameters under {} bytes a GPU; that with most "
      "ranks a model takes {}; give more --gpus, --gpu-memory-gb, or --recompute full",
      options.gpus, model.parameters, memory, bytes);
}

}  // namespace megalith::sizing
