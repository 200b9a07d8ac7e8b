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
                         std::string_view label) {
  all_gather_rows(exec, tensor, x, y_TH, label);
}

void gather_rows_backward(kernels::Exec& exec, comm::Communicator& tensor, ConstView dy_TH, View dx,
                          std::string_view label) {
  tree_reduce_scatter(exec, tensor, dy_TH, dx, Store::overwrite, label);
}

void scatter_rows_forward(kernels::Exec& exec, comm::Communicator& tensor, ConstView x_TH, View y,
                          std::string_view label) {
  tree_reduce_scatter(exec, tensor, x_TH, y, Store::overwrite, label);
}

void scatter_rows_backward(kernels::Exec& exec, comm::Communicator& tensor, ConstView dy,
                           View dx_TH, std::string_view label) {
  all_gather_rows(exec, tensor, dy, dx_TH, label);
}

ConstView split_rows_forward(const comm::Communicator& tensor, ConstView x_TH) {
  return own_rows(tensor, x_TH);
}

void split_rows_backward(kernels::Exec& exec, comm::Communicator& tensor, ConstView dy, View dx_TH,
                         std::string_view label) {
  all_gather_rows(exec, tensor, dy, dx_TH, label);
}

}  // namespace megalith::parallel
