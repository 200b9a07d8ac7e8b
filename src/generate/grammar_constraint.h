// SPDX-License-Identifier: Apache-2.0
// A text that keeps to a grammar.
#pragma once

#include "generate/token_constraint.h"
#include "grammars/grammar_state.h"

namespace megalith::generate {

class GrammarConstraint : public TokenConstraint {
 public:
  explicit GrammarConstraint(grammars::GrammarState state) : state_(std::move(state)) {}
  /// Where the grammar cannot be followed any further (grammars::kMostWays) nothing is allowed: one
  /// request's grammar must not end the others.
  void mask(std::span<uint64_t> allowed) const override;
  bool can_end() const override { return !is_lost_ && state_.can_end(); }
  void accept(int32_t id) override;
  std::unique_ptr<TokenConstraint> clone() const override {
    return std::make_unique<GrammarConstraint>(*this);
  }

 private:
  grammars::GrammarState state_;
  // Too ambiguous within a token: mask() allows those of plain characters without a look at them.
  bool is_lost_ = false;
};

}  // namespace megalith::generate
