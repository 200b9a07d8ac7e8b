// SPDX-License-Identifier: Apache-2.0
#include "generate/grammar_constraint.h"

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace megalith::generate {

void GrammarConstraint::mask(std::span<uint64_t> allowed) const {
  std::ranges::fill(allowed, 0);
  std::vector<uint64_t> tokens(grammars::mask_words(state_.tokens().num_ids()));
  if (is_lost_) return;
  try {
    state_.mask(tokens);
  } catch (const UserError&) {
    return;
  }
  const size_t words = std::min(tokens.size(), allowed.size());
  std::ranges::copy(std::span(tokens).first(words), allowed.begin());
}

void GrammarConstraint::accept(int32_t id) {
  try {
    MEGA_CHECK(state_.accept(id), "token {} is not allowed by the grammar", id);
  } catch (const UserError&) {
    is_lost_ = true;
  }
}

}  // namespace megalith::generate
