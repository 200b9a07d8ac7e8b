// SPDX-License-Identifier: Apache-2.0
// The losses of pairs of answers (Batch::compared) under a language model's head: the losses of its
// tokens, forward alone; from their sums over answers the loss of each pair and what each token
// weighs in it; and the head's gradient under these weights, for which it makes the logits anew.
#pragma once

#include "heads/head.h"

namespace megalith::layers {

/// values_U (f32 or f64), overwritten: the losses of the pairs, then what is told of them
/// (kToldOfPairs), one number after the other. dx_TH, overwritten, as of Head::forward_backward
/// without z-loss; absent: losses only. Parameter gradients accumulate. Memory: two numbers a
/// token. Collective over the tensor ranks, which give the same weights.
void compare_answers(const Head& tokens, Context& context, const Batch& batch, ConstView x_TH,
                     View values_U, View dx_TH);

}  // namespace megalith::layers
