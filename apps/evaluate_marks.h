// SPDX-License-Identifier: Apache-2.0
// megalith evaluate answers | tags: scores of extractive question answering and of token
// classification.
#pragma once

#include "apps/command.h"

namespace megalith::apps {

/// Adds `answers` to `evaluate`.
void add_answers(CLI::App& parent, Invocation& invocation);
/// And `tags`.
void add_tags(CLI::App& parent, Invocation& invocation);

}  // namespace megalith::apps
