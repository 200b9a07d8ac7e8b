// SPDX-License-Identifier: Apache-2.0
// megalith plan --budget: what is asked, and the answer worked out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/plan/plan_modes.h"
#include "config/recipe.h"
#include "sizing/law_fit.h"
#include "sizing/nemo.h"
#include "sizing/shape_rule.h"

namespace megalith::apps {

struct BudgetOptions {
  std::shared_ptr<RunSize> run;
  std::string tokens;
  double tflops = 0;
  std::string family = "gpt";
  int64_t vocab = 0;     // 0: the family's usual one
  int64_t sequence = 0;  // likewise
  std::string recompute = "none";
  int gpu_memory_gb = 80;
  double price = 0;
  std::vector<std::string> runs;  // that a loss law is fitted to
};

/// Another size for the same operations.
struct Alternative {
  std::string source;
  sizing::SizedModel model;
  double tokens = 0;
  double loss = 0;  // by the law that it follows, or the answer's
};

struct BudgetAnswer {
  sizing::Budget budget;
  sizing::Task task;
  sizing::SizedModel model;
  double days = 0;  // that the model takes
  /// The law by which losses are told: fitted to the runs that were given, or the first published.
  sizing::LossLaw law;
  std::optional<sizing::FittedLaw> fitted;
  std::vector<Alternative> alternatives;
  /// What NeMo's tool says of the same budget, where it has the family; or why it says nothing.
  std::optional<sizing::NemoFamily> nemo_family;
  double nemo_size = 0;
  std::optional<sizing::NemoShape> nemo_shape;
  std::string nemo_fault;
  std::vector<std::string> assumptions;
};

/// UserError naming the run that does not say its size, or has no steps.
sizing::FittedLaw fit_runs(const std::vector<std::string>& runs);

BudgetAnswer answer_budget(const BudgetOptions& options);
/// The recipe of the answer's model, or of NeMo's with --nemo.
config::Recipe budget_recipe(const BudgetOptions& options, const BudgetAnswer& answer);
/// One JSON object, or tables for people.
void print_budget(const BudgetOptions& options, const BudgetAnswer& answer, bool json);

}  // namespace megalith::apps
