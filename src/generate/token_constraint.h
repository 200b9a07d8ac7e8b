// SPDX-License-Identifier: Apache-2.0
// What holds a text to a form (a grammar, a schema, a list of choices): which tokens may come next.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace megalith::generate {

/// The state of one text: a function of the tokens it was told of.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  /// Sets bit i % 64 of allowed[i / 64] for each token i that may come next, and clears the others;
  /// bits beyond the vocabulary stay 0. What end tokens have is of no account: the text may end
  /// where can_end().
  virtual void mask(std::span<uint64_t> allowed) const = 0;
  virtual bool can_end() const = 0;
  /// The text goes on with `id`, which may come next.
  virtual void accept(int32_t id) = 0;
  virtual std::unique_ptr<TokenConstraint> clone() const = 0;
};

}  // namespace megalith::generate
