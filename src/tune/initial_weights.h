// SPDX-License-Identifier: Apache-2.0
// The weights that tuning begins with.
#pragma once

#include "engine/engine.h"
#include "store/model_source.h"

namespace megalith::tune {

/// Those of the model; what it does not have is drawn from the seed: factors, and of a classifier
/// the head, unless the model is one of the same classes; magnitudes (DoRA) are the norms of the
/// weights' rows. `prompt`: tokens whose rows virtual ones begin with; none: they are drawn too.
/// All ranks call it alike; ready on return.
void begin_with(const store::ModelSource& model, std::span<const int32_t> prompt,
                engine::Engine& engine);

}  // namespace megalith::tune
