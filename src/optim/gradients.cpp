// SPDX-License-Identifier: Apache-2.0
#include "optim/gradients.h"

#include <utility>

#include "kernels/elementwise/pointwise.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/reduction/norms.h"
#include "kernels/reduction/tree_sum.h"
#include "parallel/canonical.h"

namespace megalith::optim {
namespace {

using parameters::Parameter;

/// First and last stage each fill one buffer of the tied table and need both.
void exchange_tied(const parallel::Mesh& mesh, Parameter& tied) {
  comm::Communicator& pipeline = mesh.pipeline();
  const bool first = mesh.is_first_stage();
  if (mesh.layout().pipeline == 1 || (!first && !mesh.is_last_stage())) return;
  const int peer = first ? pipeline.size() - 1 : 0;
  const int mine = first ? 0 : 1;
  const View own = tied.gradient_sum(mine).reshape(Shape{tied.local_elements()});
  const View other = tied.gradient_sum(1 - mine).reshape(Shape{tied.local_elements()});
  comm::Ticket sent = pipeline.start_send(peer, own, "tied.gradient", first ? 0 : 1);
  comm::Ticket received = pipeline.start_receive(peer, other, "tied.gradient", first ? 1 : 0);
  pipeline.wait(std::move(received));
  pipeline.wait(std::move(sent));
}

/// sums_C (f64) of the squares of one parameter's local gradient, one per canonical shard here.
void sum_squares(kernels::Exec& exec, const Parameter& parameter, View sums_C) {
  const View gradient = parameter.gradient();
  const int shards = parameter.local_canonical_shards();
  const int64_t elements = parameter.local_elements() / shards;
  const device::Tensor partials =
      exec.workspace.tensor(DType::f64, Shape{kernels::num_square_partials(elements)});
  const bool by_columns = parameter.declaration().shard.dim == 1 && shards > 1;
  device::Tensor columns;
  if (by_columns)
    columns =
        exec.workspace.tensor(gradient.dtype(), Shape{gradient.size(0), gradient.size(1) / shards});
  for (int s = 0; s < shards; ++s) {
    ConstView part = gradient;
    if (by_columns) {
      exec.device.copy(columns, gradient.columns(s * columns.view.size(1), columns.view.size(1)));
      part = columns;
    } else if (shards > 1) {
      part = gradient.rows(s * gradient.size(0) / shards, gradient.size(0) / shards);
    }
    kernels::sum_of_squares(exec, {part.reshape(Shape{elements}), partials});
    kernels::ordered_sum(exec, {.x = partials, .y = sums_C.rows(s, 1)});
  }
}

/// The sum over a group of vectors of which all ranks but one hold zero in every place: exact.
void merge(kernels::Exec& exec, comm::Communicator& group, View x) {
  if (group.size() == 1) return;
  const device::Tensor all = exec.workspace.tensor(x.dtype(), Shape{group.size(), x.size(0)});
  group.wait(group.start_all_gather(x.reshape(Shape{1, x.size(0)}), all, "gradient.squares"));
  kernels::tree_sum(exec, {all, x});
}

}  // namespace

void reduce_gradients(kernels::Exec& exec, const parallel::Mesh& mesh,
                      parameters::ParameterSet& set, Parameter* tied) {
  const device::NameScope scope(exec.device, "gradients");
  if (mesh.data().size() > 1) {
    parallel::tree_all_reduce(exec, mesh.data(), set.flat_gradient_sums(), "gradients");
  }
  if (tied != nullptr) exchange_tied(mesh, *tied);
  for (Parameter& parameter : set.all()) {
    if (parameter.num_gradients() == 2) {
      kernels::add(exec, parameter.gradient_sum(0), parameter.gradient_sum(1),
                   parameter.gradient());
    }
    if (const int partials = parameter.declaration().gradient_partials; partials > 1) {
      kernels::tree_sum(exec, {parameter.gradient_sum(),
                               parameter.gradient().reshape(Shape{parameter.local_elements()})});
    }
  }
}

NormOrder::NormOrder(const parameters::ParameterSet& whole) {
  for (const Parameter& parameter : whole.all()) {
    first_[parameter.name()] = size_;
    size_ += parameter.declaration().canonical_shards;
  }
}

GradientNorm gradient_norm(kernels::Exec& exec, const parallel::Mesh& mesh,
                           const parameters::ParameterSet& set, const Parameter* tied,
                           const NormOrder& order, double clip) {
  const device::NameScope scope(exec.device, "gradients");
  const device::Tensor sums = exec.workspace.tensor(DType::f64, Shape{order.size()});
  exec.device.fill_zero(sums);
  for (const Parameter& parameter : set.all()) {
    const bool whole_here = parameter.declaration().canonical_shards == 1;
    if (whole_here && mesh.at().tensor != 0) continue;           // replicated: counted once
    if (&parameter == tied && !mesh.is_first_stage()) continue;  // the copy on the last stage
    const int64_t at = order.first_of(parameter.name()) + parameter.first_canonical_shard();
    sum_squares(exec, parameter, sums.view.rows(at, parameter.local_canonical_shards()));
  }
  merge(exec, mesh.tensor(), sums);
  merge(exec, mesh.pipeline(), sums);
  const device::Tensor total = exec.workspace.tensor(DType::f64, Shape{1});
  kernels::ordered_sum(exec, {.x = sums, .y = total});
  const DType dtype = set.storage().master;
  GradientNorm result{exec.workspace.tensor(DType::f64, Shape{1}),
                      exec.workspace.tensor(dtype, Shape{1})};
  const device::Tensor factor = exec.workspace.tensor(DType::f32, Shape{1});
  kernels::clip_factor(exec, {total, clip, factor, result.norm});
  kernels::cast(exec, factor, result.factor);
  return result;
}

}  // namespace megalith::optim
