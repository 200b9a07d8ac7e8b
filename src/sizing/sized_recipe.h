// SPDX-License-Identifier: Apache-2.0
// The whole recipe of a sized model: layout, batch, optimizer and length, so that `train` and
// `plan` take it as it is; data and tokenizer are what is left to name.
#pragma once

#include <functional>
#include <optional>

#include "config/recipe.h"
#include "sizing/nemo.h"
#include "sizing/shape_rule.h"

namespace megalith::sizing {

struct RecipeOptions {
  int64_t gpus = 1;
  double tokens = 0;
  int64_t global_batch = 0;  // wished for; rounded up to what the data ranks divide
  double lr = 0;
};

/// Batch and learning rate of GPT-3's models (Brown et al. 2020, table 2.1): the batch, in samples,
/// of the next smaller one, to a power of two of tokens; the rate between its neighbours.
int64_t usual_batch(int64_t parameters, int64_t sequence);
double usual_learning_rate(int64_t parameters);

/// One layout. UserError naming options when the GPUs or the model do not divide so.
config::Recipe sized_recipe(const Task& task, const SizedModel& model, const RecipeOptions& options,
                            int64_t tensor, int64_t pipeline);
/// NeMo's shape, with the layout of its tool (t5 with gated gelu, as its models have).
config::Recipe nemo_recipe(const NemoShape& shape, const NemoBase& base, NemoFamily family,
                           const Task& task, const RecipeOptions& options);

/// The first layout, from few ranks of a model to many, whose rank that takes most fits into
/// `memory` bytes by `planned` (bytes of a recipe). UserError when none does.
config::Recipe fitting_recipe(const Task& task, const SizedModel& model,
                              const RecipeOptions& options, int64_t memory,
                              const std::function<int64_t(const config::Recipe&)>& planned);

}  // namespace megalith::sizing
