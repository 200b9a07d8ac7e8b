// SPDX-License-Identifier: Apache-2.0
// megalith evaluate score --masked | embed | classify: what encoders are asked for.
#pragma once

#include "apps/checkpoint_options.h"

namespace megalith::apps {

/// The log-probability of every token with that one masked. `mask_id`: negative where the tokenizer
/// says it.
int score_masked(const CheckpointOptions& options, const std::string& input, int64_t mask_id);

/// Adds `embed` and `classify`.
void add_sequence_commands(CLI::App& parent, Invocation& invocation);

}  // namespace megalith::apps
