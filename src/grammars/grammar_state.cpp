// SPDX-License-Identifier: Apache-2.0
#include "grammars/grammar_state.h"

#include <algorithm>

namespace megalith::grammars {

void GrammarState::mask(std::span<uint64_t> allowed) const {
  std::ranges::fill(allowed, 0);
  matcher_->mask(stack_, allowed);
  if (!begins_text_) return;
  const auto differing = tokens().differing_first();
  for (size_t word = 0; word < allowed.size(); ++word) allowed[word] &= ~differing[word];
}

bool GrammarState::is_left_out(int32_t id) const {
  if (id < 0 || id >= tokens().num_ids() || tokens().text(id).empty()) return true;
  const auto place = static_cast<size_t>(id);
  return begins_text_ && ((tokens().differing_first()[place / 64] >> (place % 64)) & 1) != 0;
}

bool GrammarState::accept(int32_t id) {
  if (is_left_out(id) || !matcher_->advance(stack_, tokens().text(id))) return false;
  begins_text_ = false;
  return true;
}

}  // namespace megalith::grammars
