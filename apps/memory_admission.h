// SPDX-License-Identifier: Apache-2.0
// Does a run fit into the memory of the machines that it runs on?
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "account/plan.h"
#include "apps/ranks.h"
#include "engine/settings.h"
#include "text/tokenizer.h"

namespace megalith::apps {

/// Planned bytes by rank.
using MemoryPlan = std::vector<account::MemoryByClass>;

/// Before anything is allocated: UserError when the ranks of this machine, threads or processes, do
/// not fit into its memory together, or those of one of its control groups into that. The first
/// rank of each machine and group asks for all of it. `tokenizer` may be null; `settings_of` makes
/// the settings of the recipe and of others that would take less. What was planned is returned on
/// rank 0. Collective.
using SettingsOf = std::function<engine::Settings(const config::Recipe&)>;
std::optional<MemoryPlan> require_memory(const RankPlace& place, const config::Recipe& recipe,
                                         const text::Tokenizer* tokenizer,
                                         const SettingsOf& settings_of);

}  // namespace megalith::apps
