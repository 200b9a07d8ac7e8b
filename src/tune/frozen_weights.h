// SPDX-License-Identifier: Apache-2.0
// How frozen weights are held while something trains beside them: in blocks of 8 or 4 bits (QLoRA,
// Dettmers et al. 2023) if the recipe or the model's file has them so.
#pragma once

#include <string>

#include "config/recipe.h"
#include "parameters/parameter.h"
#include "store/model_source.h"

namespace megalith::tune {

/// The formats of weights in blocks, by name, for a run whose method trains beside the model
/// (config::TuneSection::trains_beside): with tune.quantize as store::formats_in_blocks() has them;
/// else those of a GGUF file, where every rank of the layout holds whole blocks and the run
/// computes no products in fp8. Without the base's head for a classifier, which has its own.
/// UserError when the recipe asks for blocks and no weight has rows of whole ones.
parameters::StorageFormats frozen_formats(const config::Recipe& recipe,
                                          const store::ModelSource& model);
/// "1 in q8_0, 120 in q4_0"; empty for none.
std::string description_of(const parameters::StorageFormats& formats);

}  // namespace megalith::tune
