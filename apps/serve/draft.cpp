// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/draft.h"

#include <algorithm>

#include "generate/block_plan.h"
#include "generate/draft.h"

namespace megalith::apps {

ServedDraft plan_draft(const CheckpointOptions& options, const store::ModelSource& source,
                       const std::string& path, int64_t texts, int64_t context,
                       const device::Target& target) {
  using generate::Draft;
  inference::require_one_stack(source.spec(), "--draft");
  ServedDraft draft{.source = store::ModelSource::open(path), .path = path, .blocks = {}};
  const models::ModelSpec& spec = draft.source.spec();
  inference::require_one_stack(spec, "--draft");
  draft.blocks = Draft::needed(spec, context);
  for (int64_t& count : draft.blocks) count *= texts;
  const std::vector<generate::RankMemory> ranks = generate::plan_memory(
      spec, options_beside(options, source, draft.source, path), target,
      {.sequences = std::min(texts, Draft::kPassTokens), .tokens = Draft::kPassTokens},
      std::min(context, spec.context));
  for (const generate::RankMemory& rank : ranks) draft.bytes += rank.total(draft.blocks);
  return draft;
}

}  // namespace megalith::apps
