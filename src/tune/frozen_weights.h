// SPDX-License-Identifier: Apache-2.0
// How weights that something trains beside are held: in blocks of 8 or 4 bits (Dettmers et al.
// 2023), if a recipe or the model's file says so.
#pragma once

#include <string>

#include "config/recipe.h"
#include "parameters/parameter.h"
#include "store/model_source.h"

namespace megalith::tune {

/// By name, of a run whose method trains beside the model (config::TuneSection::trains_beside),
/// what is in blocks: with tune.quantize as store::formats_in_blocks() has it; else what the file
/// has so, where a rank of the layout holds whole blocks and no product is in 8 bits. Nothing of
/// the head of a classifier's base, which the classifier lacks. UserError where the recipe asks for
/// blocks and the model has no rows of whole ones.
parameters::StorageFormats frozen_formats(const config::Recipe& recipe,
                                          const store::ModelSource& model);
/// "1 in q8_0, 120 in q4_0"; empty for none.
std::string description_of(const parameters::StorageFormats& formats);

}  // namespace megalith::tune
