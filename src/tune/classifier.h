// SPDX-License-Identifier: Apache-2.0
// The classifier that a model becomes: its body, and its family's head of whole sequences.
#pragma once

#include <string>
#include <vector>

#include "spec/model_spec.h"

namespace megalith::tune {

/// The model of the family's class for sequence classification, with these labels in their order;
/// of one label, for regression. UserError, beginning with `where`, when the family has no such
/// class, or the model is a classifier of other labels.
models::ModelSpec classifier_of(const models::ModelSpec& model,
                                const std::vector<std::string>& labels, const std::string& where);

}  // namespace megalith::tune
