// SPDX-License-Identifier: Apache-2.0
// Where a step first met a number that is not finite. A step changes nothing that lasts before its
// update, so replaying it needs no copy of the state: the same batches run again with every
// activation and gradient looked at.
#pragma once

#include <span>
#include <string>

#include "engine/engine.h"

namespace megalith::engine {

/// Replays step `step` and names the first tensor that is not finite, by kind in the order in which
/// a micro-batch meets them, of one kind the first met: loss weights of the input, weights,
/// moments, activations, losses of tokens, gradients of activations, then of parameters from the
/// last layer to the first. "activation layers.3.mlp.output", "weight head.weight". Collective; the
/// same text on every rank.
std::string first_not_finite(Engine& engine, int64_t step,
                             std::span<const data::HostBatch> micro_batches, double global_weight);

/// Whether all that the last update wrote on this rank is finite. Every update writes the whole
/// state and looks at it on the way, so this reads one number per parameter. Local.
bool update_is_finite(Engine& engine);

/// DoNotRestartError, on every rank, naming the first parameter or moment that the last update left
/// not finite on some rank: such a state must not replace a good checkpoint. Collective.
[[noreturn]] void refuse_update(Engine& engine, int64_t step);

}  // namespace megalith::engine
