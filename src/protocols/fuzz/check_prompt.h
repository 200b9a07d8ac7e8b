// SPDX-License-Identifier: Apache-2.0
// Fuzz targets only: what is true of every prompt that is taken.
#pragma once

#include <algorithm>

#include "base/check.h"
#include "protocols/reply.h"
#include "protocols/served_model.h"

namespace megalith::protocols {

/// It has tokens of the model that was asked, all its rows and no others, and fits the context.
inline void check_prompt(const PreparedSequence& sequence, const ServedModel& model) {
  const std::vector<int32_t>& prompt = sequence.prompt;
  MEGA_CHECK(!prompt.empty());
  MEGA_CHECK_LE(counted_tokens(model, prompt.size()) + sequence.options.max_new_tokens,
                model.context);
  for (const int32_t id : prompt) MEGA_CHECK(id >= 0 && id < prompt_vocab(model));
  const auto is_row = [&](int32_t id) { return id >= model.vocab; };
  MEGA_CHECK_EQ(std::ranges::count_if(prompt, is_row), prompt_vocab(model) - model.vocab);
}

}  // namespace megalith::protocols
