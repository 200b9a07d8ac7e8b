// SPDX-License-Identifier: Apache-2.0
#include "trials/calibration_models.h"

#include <fmt/format.h>

#include "engine/from_recipe.h"
#include "models/recipe_model.h"

namespace megalith::trials {
namespace {

struct ModelShape {
  const char* family;
  int64_t layers, hidden, heads, kv_heads, context, vocab, micro_batch, micro_batches;
};

// Widths and lengths apart by factors, so that costs of calls, operations and bytes tell apart.
constexpr ModelShape kShapes[] = {
    {"gpt2", 2, 128, 4, 4, 128, 1024, 1, 2},  {"gpt2", 2, 240, 6, 6, 192, 3072, 2, 1},
    {"gpt2", 1, 512, 8, 8, 128, 2048, 4, 1},  {"gpt2", 1, 768, 12, 12, 256, 8192, 1, 1},
    {"llama", 2, 192, 6, 2, 128, 2048, 2, 1}, {"llama", 1, 384, 6, 3, 256, 8192, 1, 2},
    {"llama", 1, 640, 10, 5, 64, 4096, 4, 1}, {"bert", 2, 256, 4, 4, 128, 4096, 4, 1},
    {"bert", 1, 512, 8, 8, 128, 8192, 2, 1},  {"t5", 1, 256, 4, 4, 128, 2048, 2, 1},
    {"qwen3", 1, 256, 4, 2, 128, 2048, 2, 1}};

config::Recipe recipe_of(const ModelShape& shape, clusters::ProductType type) {
  config::Recipe r;
  const bool is_bf16 = type == clusters::ProductType::bf16;
  r.model.family = shape.family;
  r.model.layers = shape.layers;
  r.model.hidden = shape.hidden;
  r.model.heads = shape.heads;
  r.model.kv_heads = shape.kv_heads;
  r.model.context = shape.context;
  r.model.vocab = shape.vocab;
  r.train.steps = 100;
  r.train.micro_batch = shape.micro_batch;
  r.train.global_batch = shape.micro_batch * shape.micro_batches;
  r.precision.parameters = is_bf16 ? config::Precision::bf16 : config::Precision::f32;
  r.precision.compute = is_bf16 ? config::Compute::bf16 : config::Compute::f32;
  const std::string_view family = shape.family;
  if (family == "bert") r.train.objective = config::Objective::masked;
  if (family == "t5") r.train.objective = config::Objective::spans;
  // Dropout is a kernel too.
  if (shape.micro_batch == 2) r.model.dropout = 0.1;
  return r;
}

CalibrationModel model_of(const ModelShape& shape, clusters::ProductType type,
                          config::Recipe recipe, const std::string& layout) {
  models::complete(recipe.model);
  config::resolve(recipe);
  return {fmt::format("{} {}x{}, {} tokens, {}{}", shape.family, shape.layers, shape.hidden,
                      shape.micro_batch * shape.context, type, layout),
          type, engine::settings_of(recipe, shape.vocab)};
}

}  // namespace

std::vector<CalibrationModel> calibration_models() {
  std::vector<CalibrationModel> models;
  for (const auto type : {clusters::ProductType::f32, clusters::ProductType::bf16}) {
    for (const ModelShape& shape : kShapes)
      models.push_back(model_of(shape, type, recipe_of(shape, type), ""));
  }
  return models;
}

std::vector<CalibrationModel> calibration_layouts() {
  std::vector<CalibrationModel> models;
  for (const auto type : {clusters::ProductType::f32, clusters::ProductType::bf16}) {
    for (const ModelShape& shape : {kShapes[1], kShapes[4], kShapes[7]}) {
      config::Recipe recipe = recipe_of(shape, type);
      recipe.train.global_batch *= 2;
      recipe.parallel.tensor = 2;
      models.push_back(model_of(shape, type, recipe, ", tensor 2"));
      recipe.parallel.sequence = true;
      models.push_back(model_of(shape, type, recipe, ", sequence"));
      recipe.parallel.tensor = 1;
      recipe.parallel.sequence = false;
      recipe.parallel.data = recipe.parallel.data_shards = 2;
      for (const int zero : {0, 1}) {
        recipe.parallel.zero = zero;
        models.push_back(model_of(shape, type, recipe, fmt::format(", data 2, zero {}", zero)));
      }
      recipe.parallel.zero = 0;
      recipe.parallel.data = recipe.parallel.data_shards = 1;
      recipe.parallel.pipeline = 2;
      models.push_back(model_of(shape, type, recipe, ", pipeline 2"));
    }
  }
  return models;
}

}  // namespace megalith::trials
