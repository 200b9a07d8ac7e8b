// SPDX-License-Identifier: Apache-2.0
// The classifier that a model becomes: its body, and its family's head for what classes are said
// of.
#pragma once

#include <string>

#include "config/tune_section.h"
#include "spec/model_spec.h"

namespace megalith::tune {

/// The model of the family's class for tune.task, with the classes of tune.labels in their order;
/// of whole texts with one label, for regression. UserError, beginning with tune.model, when the
/// family has no such class, or the model is such a classifier of other labels.
models::ModelSpec classifier_of(const models::ModelSpec& model, const config::TuneSection& tune);

}  // namespace megalith::tune
