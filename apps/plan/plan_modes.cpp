// SPDX-License-Identifier: Apache-2.0
#include "apps/plan/plan_modes.h"

#include <fmt/format.h>

#include <algorithm>

namespace megalith::apps {

CLI::Option* PlanModes::add(const std::string& flag, const std::string& text,
                            std::function<int(bool)> run, bool takes_recipe,
                            std::vector<std::string> instead) {
  CLI::Option* const option = command_.add_flag(flag, text);
  modes_.push_back({option, std::move(run), takes_recipe, std::move(instead)});
  return option;
}

CLI::Option* PlanModes::flag(const CLI::Option* mode, const std::string& name, bool& value,
                             const std::string& text) {
  CLI::Option* option = command_.get_option_no_throw(name);
  if (option == nullptr) option = command_.add_flag(name, value, text);
  owners_.push_back({option, mode});
  return option;
}

void PlanModes::check_owners() const {
  for (const Owner& owner : owners_) {
    if (owner.option->count() == 0) continue;
    std::string names;
    bool owned = false;
    for (const Owner& other : owners_) {
      if (other.option != owner.option) continue;
      owned = owned || other.mode->count() > 0;
      names += fmt::format("{}{}", names.empty() ? "" : " or ", other.mode->get_name());
    }
    if (!owned)
      throw CLI::ValidationError(fmt::format("{} goes with {}", owner.option->get_name(), names));
  }
}

const std::function<int(bool)>* PlanModes::chosen(const RecipeOptions& recipe) const {
  const Mode* asked = nullptr;
  for (const Mode& mode : modes_) {
    if (mode.flag->count() == 0) continue;
    if (asked != nullptr)
      throw CLI::ValidationError(
          fmt::format("{} excludes {}", mode.flag->get_name(), asked->flag->get_name()));
    asked = &mode;
  }
  check_owners();
  if (asked == nullptr) return nullptr;
  const bool has_recipe = !recipe.path.empty() || !recipe.overrides.empty();
  const auto given = [&](const std::string& name) {
    return command_.get_option(name)->count() > 0;
  };
  const bool replaced = std::ranges::any_of(asked->instead, given);
  if (has_recipe && (!asked->takes_recipe || replaced))
    throw CLI::ValidationError(
        fmt::format("{} takes no recipe{}", asked->flag->get_name(),
                    replaced ? fmt::format(" with {}", asked->instead.front()) : ""));
  if (asked->takes_recipe && recipe.path.empty() && !replaced)
    throw CLI::RequiredError(fmt::format("{}: recipe or checkpoint", asked->flag->get_name()));
  return &asked->run;
}

}  // namespace megalith::apps
