// SPDX-License-Identifier: Apache-2.0
// Where activations change how they are spread over the tensor axis. Each region is a pair of
// adjoint maps (Shoeybi et al. 2019, f and g; Korthikanti et al. 2022, g and its conjugate):
//
//   region          forward                           backward
//   copy            identity (no call)                tree all-reduce of dx
//   reduce          tree all-reduce of partials       identity (no call)
//   gather_rows     all-gather of token shards        tree reduce-scatter of dx
//   scatter_rows    tree reduce-scatter of partials   all-gather of dy shards
//
// copy and reduce enclose a tensor-parallel block without sequence parallelism, gather_rows and
// scatter_rows one with it. All are collective over `tensor` and done when they return; canonical.h
// and sequence_shard.h have the start/finish forms for overlap. Sums are f32.
#pragma once

#include "parallel/sequence_shard.h"

namespace megalith::parallel {

/// dx_TH: this rank's f32 contribution; overwritten by the sum.
void copy_backward(kernels::Exec& exec, comm::Communicator& tensor, View dx_TH,
                   std::string_view label);
/// y_TH: this rank's f32 partial; overwritten by the sum.
void reduce_forward(kernels::Exec& exec, comm::Communicator& tensor, View y_TH,
                    std::string_view label);

/// x: this rank's rows of y_TH, any dtype. y_TH is overwritten.
void gather_rows_forward(kernels::Exec& exec, comm::Communicator& tensor, ConstView x, View y_TH,
                         const SequenceShard& shard, std::string_view label);
/// dy_TH: this rank's f32 contribution to all rows; dx: f32, its own rows of the sum, overwritten.
void gather_rows_backward(kernels::Exec& exec, comm::Communicator& tensor, ConstView dy_TH, View dx,
                          const SequenceShard& shard, std::string_view label);

/// x_TH: this rank's f32 partial of all rows; y: f32, its own rows of the sum, overwritten.
void scatter_rows_forward(kernels::Exec& exec, comm::Communicator& tensor, ConstView x_TH, View y,
                          const SequenceShard& shard, std::string_view label);
/// dy: this rank's rows, any dtype; dx_TH: all rows, overwritten.
void scatter_rows_backward(kernels::Exec& exec, comm::Communicator& tensor, ConstView dy,
                           View dx_TH, const SequenceShard& shard, std::string_view label);

}  // namespace megalith::parallel
