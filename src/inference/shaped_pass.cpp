// SPDX-License-Identifier: Apache-2.0
#include "inference/shaped_pass.h"

#include <numeric>

#include "base/check.h"

namespace megalith::inference {
namespace {

std::vector<int64_t> shaped_counts(const models::ModelSpec& spec, int64_t sequences,
                                   int64_t context) {
  return std::vector<int64_t>(kv_groups(spec).size(),
                              sequences * kernels::kv_cache_blocks(context));
}

}  // namespace

ShapedPasses::ShapedPasses(InferenceEngine& engine, int64_t sequences, int64_t context)
    : engine_(engine),
      context_(context),
      blocks_(engine.model(), shaped_counts(engine.spec(), sequences, context)),
      ids_(static_cast<size_t>(context), 1 % static_cast<int32_t>(engine.spec().vocab)) {
  const int64_t each = kernels::kv_cache_blocks(context);
  for (int64_t s = 0; s < sequences; ++s) {
    std::vector<int32_t> own(static_cast<size_t>(each));
    std::iota(own.begin(), own.end(), static_cast<int32_t>(s * each));
    tables_.emplace_back(blocks_.groups().size(), own);
  }
}

void ShapedPasses::run(std::span<const ShapedRows> rows, InferenceEngine::SeeLogits see) {
  std::vector<SequenceRows> all;
  for (const ShapedRows& r : rows) {
    MEGA_CHECK(r.past + r.count <= context_, "{} tokens behind {} of {}", r.count, r.past,
               context_);
    for (int64_t s = 0; s < r.sequences; ++s) {
      MEGA_CHECK(all.size() < tables_.size(), "more than {} sequences", tables_.size());
      all.push_back({.ids = std::span(ids_).first(static_cast<size_t>(r.count)),
                     .past = r.past,
                     .reach = context_,
                     .blocks = &tables_[all.size()],
                     .num_logits = r.chooses ? 1 : 0});
    }
  }
  engine_.step(blocks_, all, see);
}

}  // namespace megalith::inference
