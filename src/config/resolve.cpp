// SPDX-License-Identifier: Apache-2.0
// What a recipe leaves to others of its values.
#include <numeric>
#include <utility>

#include "base/integer.h"
#include "config/recipe.h"

namespace megalith::config {
namespace {

/// Replaces a method that is short for full and an objective, unless the recipe sets another
/// objective.
void name_objective(TuneSection& tune) {
  for (const auto& [method, objective] :
       {std::pair{TuneMethod::dpo, TuneObjective::dpo},
        std::pair{TuneMethod::classify, TuneObjective::classify}}) {
    if (tune.method != method) continue;
    if (tune.objective != TuneObjective::sft && tune.objective != objective) return;
    tune.method = TuneMethod::full;
    tune.objective = objective;
  }
}

}  // namespace

void resolve(Recipe& recipe) {
  ModelSection& m = recipe.model;
  TrainSection& t = recipe.train;
  if (m.kv_heads == 0) m.kv_heads = m.heads;
  name_objective(recipe.tune);
  // What says the same as 0 is 0, so that a recipe from before these keys is equal to one after.
  if (divides(m.heads, m.hidden) && m.head_dim == m.hidden / m.heads) m.head_dim = 0;
  if (m.ffn == 0) m.ffn = checked_multiply(4, m.hidden).value_or(0);
  if (t.sequence_length == m.context && !recipe.tunes()) t.sequence_length = 0;
  if (recipe.parallel.tensor_shards == 0 && !recipe.tunes())
    recipe.parallel.tensor_shards = std::gcd<int64_t>(8, std::gcd(m.heads, m.kv_heads));
  if (t.micro_batch == 0) {
    const int64_t batch = std::gcd(t.global_batch, std::gcd(t.ramp_start, t.ramp_increment));
    const int64_t shards = recipe.parallel.data_shards;
    // Where the shards do not divide the batch no value is right: 1 lets the rule name both.
    t.micro_batch = divides(shards, batch) ? batch / shards : 1;
  }
}

}  // namespace megalith::config
