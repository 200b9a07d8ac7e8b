// SPDX-License-Identifier: Apache-2.0
// The classifier that a model becomes: its body, and its family's head for tune.task.
#pragma once

#include <string>

#include "config/tune_section.h"
#include "spec/model_spec.h"

namespace megalith::tune {

/// The model of the family's class for tune.task, with the classes of tune.labels in their order;
/// with one label, of whole texts, for regression. UserError, beginning with tune.model, when the
/// family has no such class, or the model is a classifier of that kind with other labels.
models::ModelSpec classifier_of(const models::ModelSpec& model, const config::TuneSection& tune);

}  // namespace megalith::tune
