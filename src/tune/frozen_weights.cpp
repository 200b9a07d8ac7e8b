// SPDX-License-Identifier: Apache-2.0
#include "tune/frozen_weights.h"

#include <fmt/format.h>

#include <map>

#include "base/error.h"
#include "models/foreign_map.h"
#include "tensor/blocks.h"

namespace megalith::tune {
namespace {

using config::FrozenWeights;

Format format_of(FrozenWeights quantize) {
  return quantize == FrozenWeights::q8_0   ? Format::q8_0
         : quantize == FrozenWeights::q4_0 ? Format::q4_0
                                           : Format::q4_1;
}

/// Weights of a file in blocks give the same bits however they are held, so those of which a rank
/// would have parts of blocks are held widened.
parameters::StorageFormats stored_blocks(const config::Recipe& recipe,
                                         const store::ModelSource& model) {
  if (recipe.precision.compute == config::Compute::fp8) return {};
  parameters::StorageFormats formats = model.storage_formats(std::nullopt);
  std::erase_if(formats, [](const auto& format) { return format.second == Format::fp8; });
  const int64_t ranks = recipe.parallel.tensor;
  for (const models::DeclaredTensor& tensor :
       models::declared_tensors(model.spec(), model.tensor_shards()))
    if (tensor.is_cut_by_columns && tensor.shape[1] % (ranks * kBlockColumns) != 0)
      formats.erase(tensor.name);
  return formats;
}

}  // namespace

parameters::StorageFormats frozen_formats(const config::Recipe& recipe,
                                          const store::ModelSource& model) {
  const FrozenWeights quantize = recipe.tune.quantize;
  parameters::StorageFormats formats = quantize == FrozenWeights::stored
                                           ? stored_blocks(recipe, model)
                                           : model.storage_formats(format_of(quantize));
  // The classifier lacks the base's head.weight and head.transform.weight.
  if (recipe.classifies())
    std::erase_if(formats, [](const auto& format) { return format.first.starts_with("head."); });
  if (formats.empty() && quantize != FrozenWeights::stored) {
    throw UserError(
        "recipe: tune.quantize: {}: no weight of {} has rows of whole blocks of {} elements; take "
        "it out of the recipe",
        quantize, recipe.tune.model, kBlockColumns);
  }
  return formats;
}

std::string description_of(const parameters::StorageFormats& formats) {
  std::map<Format, int> counts;
  for (const auto& [name, format] : formats) ++counts[format];
  std::string text;
  for (const auto& [format, count] : counts)
    text += fmt::format("{}{} in {}", text.empty() ? "" : ", ", count, format);
  return text;
}

}  // namespace megalith::tune
