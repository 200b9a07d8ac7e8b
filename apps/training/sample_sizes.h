// SPDX-License-Identifier: Apache-2.0
// Logs how the examples or pairs of some files fit into samples.
#pragma once

#include "config/recipe.h"
#include "preferences/preference_source.h"
#include "tune/example_source.h"

namespace megalith::apps {

/// `counts`: of the lines that the rule's files have. A warning where some are too long, or left
/// out.
void say_sizes(const tune::ExampleSource& source, const tune::LengthRule& rule,
               const tune::ExampleCounts& counts);
void say_sizes(const tune::PreferenceSource& source, const tune::LengthRule& rule,
               const tune::ExampleCounts& counts);
/// Where a validation takes a part of its samples (train.validate_samples): what that has of each
/// of tune.tasks, with a warning for a task that has examples, and none there.
void say_validated(const tune::ExampleSource& source, const config::Recipe& recipe);

}  // namespace megalith::apps
