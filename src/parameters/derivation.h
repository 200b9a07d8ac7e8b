// SPDX-License-Identifier: Apache-2.0
// A parameter that follows from others: what reads it knows nothing of them, and they are
// parameters like any other (prompts/prompt_encoder.h). It has a value and gradient sums; nobody
// owns it, and no optimizer keeps anything of it.
//   value     made of the others' when they have changed since (ParameterSet::derive)
//   gradient  summed as any over the tokens of a data shard; behind the backward of the shard it
//             is passed on to the others (ParameterSet::backward_derived), before data shards are
//             added up: their gradients are then reduced, owned, clipped and applied as any.
// So both are made as often whatever the batch and the layout.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "kernels/exec.h"

namespace megalith::parameters {

class Parameter;

class Derivation {
 public:
  virtual ~Derivation() = default;
  /// Overwrites the compute weights of the parameter that follows, from those of the others.
  /// Scratch from workspace. Queued; local: ranks with the same weights make the same bits.
  virtual void forward(kernels::Exec& exec) const = 0;
  /// Accumulates in the others' gradient sums, from that of the parameter that follows, which stays
  /// as it is. Reads the weights of forward. Queued; local.
  virtual void backward(kernels::Exec& exec) const = 0;
};

/// A parameter that follows from those with numbers [first, last) of its set.
struct DerivedParameter {
  Parameter* value = nullptr;
  size_t first = 0;
  size_t last = 0;
  std::shared_ptr<const Derivation> derivation;
  std::optional<uint64_t> made_of = {};  // versions of the others, summed: they only grow
};

}  // namespace megalith::parameters
