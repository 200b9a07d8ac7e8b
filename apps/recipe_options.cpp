// SPDX-License-Identifier: Apache-2.0
#include "apps/recipe_options.h"

#include "base/integer.h"
#include "base/thread_pool.h"
#include "models/recipe_model.h"
#include "vocabularies/load_tokenizer.h"

namespace megalith::apps {

void RecipeOptions::declare(CLI::App& command) {
  command.add_option("recipe", path, "recipe file (YAML)")->required();
  command
      .add_option(
          "--set", overrides,
          "override a key: --set model.layers=2 (repeatable); --set model.ffn= (nothing behind "
          "the sign) takes it out of the recipe; a length (train.steps, tokens, epochs, "
          "hours) replaces the recipe's")
      ->take_all()
      ->allow_extra_args(false);
}

config::Recipe RecipeOptions::load(const std::vector<settings::Override>& more) const {
  std::vector<settings::Override> all;
  for (const std::string& text : overrides) all.push_back({text});
  all.insert(all.end(), more.begin(), more.end());
  return config::load_recipe(path, all, models::complete);
}

std::optional<text::Tokenizer> tokenizer_of(const config::Recipe& recipe) {
  if (recipe.data.tokenizer.empty()) return std::nullopt;
  return vocabularies::load_tokenizer(recipe.data.tokenizer);
}

int64_t vocab_of(const config::Recipe& recipe) {
  const auto tokenizer = tokenizer_of(recipe);
  return tokenizer ? tokenizer->vocab_size() : 0;
}

int threads_of(const config::Recipe& recipe) {
  return recipe.run.threads > 0 ? narrow<int>(recipe.run.threads) : available_cores();
}

}  // namespace megalith::apps
