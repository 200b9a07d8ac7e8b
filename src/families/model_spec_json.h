// SPDX-License-Identifier: Apache-2.0
// A model's description as JSON, for checkpoints and plans. Version 2: fields at their defaults are
// left out, so that files do not grow with the program; equal layers that follow each other are one
// entry with "count". A key that is not known is refused: it may change the arithmetic. Version 1
// (no "version"): one flat object for GPT-2's shape, all keys required.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "spec/model_spec.h"

namespace megalith::models {

nlohmann::ordered_json to_json(const ModelSpec& model);
/// UserError naming `where` and every fault; the result has passed ModelSpec::check.
ModelSpec model_spec_from(const nlohmann::json& json, const std::string& where);

/// UserError naming `where` and the keys in which they differ when the weights of `stored` cannot
/// be those that a model of `wanted` begins with. What its weights do not show may differ: dropout,
/// init_std, the family's name, and the context where positions are no weights; and `stored` may
/// have the weights of a question about sentence pairs besides.
void require_same_weights(const ModelSpec& wanted, const ModelSpec& stored,
                          const std::string& where);

}  // namespace megalith::models
