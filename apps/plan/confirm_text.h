// SPDX-License-Identifier: Apache-2.0
// What candidates took that were run, as text and JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "apps/plan/confirm.h"

namespace megalith::apps {

/// A line per run candidate, what it says of the cluster file, and the commands of missing runs.
std::string confirm_text(const Confirmation& confirmation, const search::SearchResult& result);
/// Adds to a search's answer "confirm": {"trials": [{"layout", "predicted_seconds",
/// "measured_seconds" or "failure", ...}], "folder", "commands"}, and when something ran "compute"
/// and "wire", the factors.
void add_confirmation(const Confirmation& confirmation, nlohmann::ordered_json& answer);

}  // namespace megalith::apps
