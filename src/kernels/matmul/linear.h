// SPDX-License-Identifier: Apache-2.0
// The three matrix products of a linear layer y = act(x w^T + b): forward, input gradient, weight
// gradient. Every matrix product of a model's weights is one of them. w_OI is [O, I], row-major,
// everywhere.
//
// `exact` arithmetic (docs/design/0001): the contracted dimension is cut into `k_shards` equal
// contiguous shards. Inside each, an element is one chain of f32 fused multiply-adds that starts
// from 0:
//     f32 chain   an operand is f32 or f16: in increasing index; narrower operands widen exactly,
//                 and so do weights in blocks (q8_0, q4_0, q4_1), to the f32 numbers of
//                 tensor/blocks.h
//     bf16 chain  both are bf16, or codes of 8 bits (those of weights in fp8 too), each of which is
//                 a bf16 number: pair by pair,
//                 the odd element first, denormals as zeros (math/bf16_chain.h); an odd shard ends
//                 with a pair of its own
// The shards' sums combine in one balanced binary tree,
//     tree(lo, hi) = tree(lo, mid) + tree(mid, hi),   mid = lo + (hi - lo + 1) / 2
// and the result rounds once. Where a scale is given, the finished sum is multiplied by it, and
// rounded to f32, before anything else happens to it; so it is by the scale of its row of weights
// in fp8 (tensor/blocks.h). Threads, blocking, instruction set, and how rows are spread over calls
// do not change a bit.
//
// Shapes: the T rows may lie at any distance (row_stride); I and O are contiguous. T may be 0.
// Types: x, w, dy are f32, bf16, f16, f8_e4m3 or f8_e5m2 in any mix; y, dx are f32, bf16 or f16; dw
// is f32.
// All of them may be f64 for the reference. Weights in blocks are for forward alone: training
// dequantises them first (narrow/widen.h). Local; results are ready as of a later ticket. Outputs
// must not overlap inputs. Scratch comes from exec.workspace for the duration of the call.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/elementwise/activation.h"
#include "kernels/exec.h"
#include "tensor/weight.h"

namespace megalith::kernels {

///   u = round(scale x w^T + b)
///   y = round(act(u))
/// u is rounded to the type of pre_activation_TO, or of y_TO if that is absent, *before* the
/// activation. So backward recomputes from the stored u exactly what forward did, and the fused
/// operation equals linear followed by the activation, bit for bit.
struct LinearForward {
  ConstView x_TI = {};
  Weight w_OI = {};
  View y_TO = {};         // overwritten
  int k_shards = 1;       // divides I
  ConstView scale = {};   // f32 [1]; absent: 1
  bool unscaled = false;  // of weights in fp8: y is the sum of the codes, whose scales are to come
  ConstView bias_O = {};  // optional; f32, or w's type (bf16 or f16 where w has blocks or codes)
  Activation activation = Activation::none;
  View pre_activation_TO = {};  // optional; overwritten with u
};
void linear_forward(Exec& exec, const LinearForward& arguments);

///   dx = round((scale dy w) * act'(u))
/// with the product and the sum before it in f32, and act' = 1 without a pre-activation. (Where the
/// *input* of the linear layer was act(u), this is its backward and that of the activation in one.)
struct LinearBackwardInput {
  ConstView dy_TO = {};
  Weight w_OI = {};
  View dx_TI = {};                   // overwritten
  int k_shards = 1;                  // divides O
  ConstView scale = {};              // f32 [1]; absent: 1
  ConstView pre_activation_TI = {};  // u; present exactly if there is an activation
  Activation activation = Activation::none;
};
void linear_backward_input(Exec& exec, const LinearBackwardInput& arguments);

///   dw += dy^T x
/// One chain in increasing t that continues from the stored value: cutting the rows into several
/// calls (micro-batches) gives the same bits; for the bf16 chain, where no pair is cut. Pairs begin
/// anew with every run of rows. With a scale instead
///   dw = round(dw + round(scale dy^T x))
/// whose chain begins at 0 with each call.
struct LinearBackwardWeight {
  ConstView dy_TO;
  ConstView x_TI;
  View dw_OI;  // accumulated
  // Host, read before the call returns: run r is rows [cu[r], cu[r+1]), cu.back() = T. Empty: one.
  std::span<const int32_t> cu_runs = {};
  ConstView scale = {};  // f32 [1]
};
void linear_backward_weight(Exec& exec, const LinearBackwardWeight& arguments);

/// The names of the implementations that `exec` would try for these arguments, in order.
std::vector<std::string_view> linear_implementations(const Exec& exec,
                                                     const LinearForward& arguments);
std::vector<std::string_view> linear_implementations(const Exec& exec,
                                                     const LinearBackwardInput& arguments);
std::vector<std::string_view> linear_implementations(const Exec& exec,
                                                     const LinearBackwardWeight& arguments);

}  // namespace megalith::kernels
