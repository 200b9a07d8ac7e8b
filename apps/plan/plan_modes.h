// SPDX-License-Identifier: Apache-2.0
// `megalith plan` answers several questions. Each is a flag with options of its own; options that
// several have are declared once and say whose they are, so that none is read over in silence.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "apps/recipe_options.h"

namespace megalith::apps {

class PlanModes {
 public:
  explicit PlanModes(CLI::App& command) : command_(command) {}

  /// A question; `run` answers it and gives the exit code. With `takes_recipe` the command's recipe
  /// is read, and required unless one of the options `instead` is given.
  CLI::Option* add(const std::string& flag, const std::string& text,
                   std::function<int(bool json)> run, bool takes_recipe = false,
                   std::vector<std::string> instead = {});
  /// An option, declared when it is first asked for, that is of this question too.
  template <typename T>
  CLI::Option* option(const CLI::Option* mode, const std::string& name, T& value,
                      const std::string& text) {
    CLI::Option* option = command_.get_option_no_throw(name);
    if (option == nullptr) option = command_.add_option(name, value, text);
    owners_.push_back({option, mode});
    return option;
  }
  /// The same of a flag.
  CLI::Option* flag(const CLI::Option* mode, const std::string& name, bool& value,
                    const std::string& text);
  /// An option that is there is of this question too.
  void also(const CLI::Option* mode, CLI::Option* option) { owners_.push_back({option, mode}); }

  /// The question that was asked, its options checked; null when none was. Throws CLI's errors.
  const std::function<int(bool json)>* chosen(const RecipeOptions& recipe) const;

 private:
  struct Mode {
    CLI::Option* flag;
    std::function<int(bool)> run;
    bool takes_recipe;
    std::vector<std::string> instead;
  };
  struct Owner {
    CLI::Option* option;
    const CLI::Option* mode;
  };
  void check_owners() const;
  CLI::App& command_;
  std::vector<Mode> modes_;
  std::vector<Owner> owners_;
};

/// What the questions about runs have in common.
struct RunSize {
  int64_t gpus = 0;
  double days = 0;
  std::string cluster;  // a file that describes the machines
  std::string output;   // where the recipe goes
  bool nemo = false;    // what NeMo's auto-configurator would answer
};

/// Which model a budget pays for.
void add_budget(PlanModes& modes, const std::shared_ptr<RunSize>& run);
/// Which layout and batch serve a model.
/// `model`: the command's recipe, or a checkpoint in its place.
void add_inference(PlanModes& modes, const std::shared_ptr<RunSize>& run,
                   const std::shared_ptr<RecipeOptions>& model);
/// How much of a run failures and saves leave over.
void add_goodput(PlanModes& modes, const std::shared_ptr<RunSize>& run);

}  // namespace megalith::apps
