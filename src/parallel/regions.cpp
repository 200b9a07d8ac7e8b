// SPDX-License-Identifier: Apache-2.0
#include "parallel/regions.h"

namespace megalith::parallel {

void copy_backward(kernels::Exec& exec, comm::Communicator& tensor, View dx_TH,
                   std::string_view label) {
  tree_all_reduce(exec, tensor, dx_TH, label);
}

void reduce_forward(kernels::Exec& exec, comm::Communicator& tensor, View y_TH,
                    std::string_view label) {
  tree_all_reduce(exec, tensor, y_TH, label);
}

void gather_rows_forward(kernels::Exec& exec, comm::Communicator& tensor, ConstView x, View y_TH,
                         const SequenceShard& shard, std::string_view label) {
  finish(exec, tensor, start_gather_rows(exec, tensor, x, y_TH, shard, label));
}

void gather_rows_backward(kernels::Exec& exec, comm::Communicator& tensor, ConstView dy_TH, View dx,
                          const SequenceShard& shard, std::string_view label) {
  finish(exec, tensor, start_scatter_rows(exec, tensor, dy_TH, dx, shard, label));
}

void scatter_rows_forward(kernels::Exec& exec, comm::Communicator& tensor, ConstView x_TH, View y,
                          const SequenceShard& shard, std::string_view label) {
  finish(exec, tensor, start_scatter_rows(exec, tensor, x_TH, y, shard, label));
}

void scatter_rows_backward(kernels::Exec& exec, comm::Communicator& tensor, ConstView dy,
                           View dx_TH, const SequenceShard& shard, std::string_view label) {
  finish(exec, tensor, start_gather_rows(exec, tensor, dy, dx_TH, shard, label));
}

}  // namespace megalith::parallel
