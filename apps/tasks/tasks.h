// SPDX-License-Identifier: Apache-2.0
// megalith evaluate tasks: the scores of known tasks, as lm-eval has them; evaluate glue: the
// numbers of predictions that are there already; evaluate compare: two models.
#pragma once

#include "apps/command.h"

namespace megalith::apps {

/// Adds `tasks` to `evaluate`.
void add_tasks(CLI::App& parent, Invocation& invocation);
/// And `glue`.
void add_glue(CLI::App& parent, Invocation& invocation);
/// And `compare`.
void add_compare(CLI::App& parent, Invocation& invocation);

}  // namespace megalith::apps
