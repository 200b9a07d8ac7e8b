// SPDX-License-Identifier: Apache-2.0
#include "apps/plan/confirm_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/plan/trial_folder.h"

namespace megalith::apps {
namespace {

using search::Trial;

bool has_run(const Confirmation& c) {
  return std::ranges::any_of(c.trials,
                             [](const Trial& trial) { return trial.seconds.has_value(); });
}

std::string row(const Trial& trial, const search::SearchResult& result) {
  std::string refitted = "-";
  for (const search::Candidate& candidate : result.best) {
    if (candidate.point == trial.point) refitted = fmt::format("{:.4g}", candidate.time.seconds);
  }
  const std::string measured = trial.seconds           ? fmt::format("{:.4g}", *trial.seconds)
                               : trial.failure.empty() ? std::string("not run")
                                                       : std::string("failed");
  std::string text = fmt::format("{:>9.4g} {:>9} {:>9}", trial.predicted, refitted, measured);
  text += trial.memory_bytes
              ? fmt::format(" {:>9.3f}", static_cast<double>(*trial.memory_bytes) / (1 << 30))
              : fmt::format(" {:>9}", "-");
  text += trial.other_load ? fmt::format(" {:>7.0f}", 100 * *trial.other_load)
                           : fmt::format(" {:>7}", "-");
  text += "  " + trial.point.text();
  if (!trial.failure.empty()) text += "\n      " + trial.failure;
  return text + "\n";
}

}  // namespace

std::string confirm_text(const Confirmation& c, const search::SearchResult& result) {
  std::string text = fmt::format(
      "\n{}, results in {}: seconds of a step, GiB of the rank that takes most, % of the cores "
      "that "
      "other programs took\n{:>9} {:>9} {:>9} {:>9} {:>7}  layout\n",
      c.ran_here ? "Run" : "Run elsewhere", c.folder, "predicted", "refitted", "measured", "GiB",
      "others");
  for (const Trial& trial : c.trials) text += row(trial, result);
  if (has_run(c)) {
    text += fmt::format(
        "What computes takes {:.3g} times what the cluster file says, transfers {:.3g} times. "
        "Layouts that ran come first, by what they took; the others follow by the prediction with "
        "these factors.\n",
        c.refit.compute, c.refit.wire);
  }
  double most = 0;
  for (const Trial& trial : c.trials) most = std::max(most, trial.other_load.value_or(0));
  if (most >= kQuiet) {
    text += fmt::format(
        "Other programs took up to {:.0f} % of the cores, which slows layouts unequally: repeat "
        "this "
        "when nothing else runs.\n",
        100 * most);
  }
  if (!c.commands.empty()) {
    text += fmt::format(
        "\nThis cluster is not this machine. Make the missing runs (sbatch {}/confirm.sbatch), "
        "bring "
        "the folder back and repeat this command:\n",
        c.folder);
    for (const std::string& command : c.commands) text += "  " + command + "\n";
  }
  return text;
}

void add_confirmation(const Confirmation& c, nlohmann::ordered_json& answer) {
  nlohmann::ordered_json& json = answer["confirm"];
  json["trials"] = nlohmann::ordered_json::array();
  for (const Trial& trial : c.trials) {
    nlohmann::ordered_json one{{"layout", trial.point.text()},
                               {"predicted_seconds", trial.predicted}};
    if (trial.seconds) one["measured_seconds"] = *trial.seconds;
    if (trial.memory_bytes) one["measured_memory_bytes"] = *trial.memory_bytes;
    if (trial.other_load) one["other_programs"] = *trial.other_load;
    if (!trial.failure.empty()) one["failure"] = trial.failure;
    json["trials"].push_back(std::move(one));
  }
  if (has_run(c)) {
    json["compute"] = c.refit.compute;
    json["wire"] = c.refit.wire;
  }
  json["folder"] = c.folder;
  json["commands"] = c.commands;
}

}  // namespace megalith::apps
