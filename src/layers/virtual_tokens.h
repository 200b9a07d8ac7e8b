// SPDX-License-Identifier: Apache-2.0
// Tokens beside those of the vocabulary that stand before texts (Lester et al. 2021), or inside
// them: token `vocab + k` of a batch is row k of a table that trains (prompts/), or of the row's
// adapter (layers/adapter.h), as the first layer reads it: behind the scale that rows of words
// have. What packs, cuts, keeps or masks tokens knows no more of them than that they are tokens.
// Nothing predicts them: the logits are the vocabulary's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "layers/context.h"
#include "layers/token_table.h"
#include "parameters/parameter_set.h"

namespace megalith::layers {

/// The table that trains, whole on every rank of the stage with the embedding.
class VirtualRows {
 public:
  virtual ~VirtualRows() = default;
  /// [count, E] of the masters' type, as its parameters stand.
  virtual ConstView rows() const = 0;
  /// Gradients accumulate, in the order of tokens. dy_TE: of all tokens of the batch, whose ids
  /// from `first` on are virtual. Local.
  virtual void backward(Context& context, const Batch& batch, int64_t first,
                        ConstView dy_TE) const = 0;
};

/// Ids of `count` virtual tokens, of a model with `vocab` others.
inline std::vector<int32_t> virtual_ids(int64_t vocab, int64_t count) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), static_cast<int32_t>(vocab));
  return ids;
}

/// The ids that are of the vocabulary, in order.
inline std::vector<int32_t> without_virtual(int64_t vocab, std::span<const int32_t> ids) {
  std::vector<int32_t> text;
  std::ranges::copy_if(ids, std::back_inserter(text), [&](int32_t id) { return id < vocab; });
  return text;
}

struct VirtualTokens {
  int64_t count = 0;
  /// Declares the parameters. May be absent without any.
  std::function<std::shared_ptr<const VirtualRows>(parameters::ParameterSet& set,
                                                   const TokenTable& table)>
      make;
};

}  // namespace megalith::layers
