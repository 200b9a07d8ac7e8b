// SPDX-License-Identifier: Apache-2.0
// A smaller model that guesses for a server, and the memory that it takes beside the other.
#pragma once

#include <string>
#include <vector>

#include "apps/checkpoint_options.h"
#include "device/target.h"

namespace megalith::apps {

struct ServedDraft {
  store::ModelSource source;
  std::string path;
  std::vector<int64_t> blocks;  // of each of its groups
  int64_t bytes = 0;            // of all ranks together: weights, passes, blocks
};

/// With blocks for `texts` at once, of up to `context` tokens, on devices of `target`. UserError
/// when it cannot guess for `source`'s model.
ServedDraft plan_draft(const CheckpointOptions& options, const store::ModelSource& source,
                       const std::string& path, int64_t texts, int64_t context,
                       const device::Target& target);

}  // namespace megalith::apps
