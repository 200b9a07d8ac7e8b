// SPDX-License-Identifier: Apache-2.0
#include "optim/gradients.h"

#include <utility>

#include "kernels/elementwise/pointwise.h"
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
  const View own = tied.owned_part(tied.gradient_sum(mine));
  const View other = tied.owned_part(tied.gradient_sum(1 - mine));
  comm::Ticket sent = pipeline.start_send(peer, own, "tied.gradient", first ? 0 : 1);
  comm::Ticket received = pipeline.start_receive(peer, other, "tied.gradient", first ? 1 : 0);
  pipeline.wait(std::move(received));
  pipeline.wait(std::move(sent));
}

/// The tree over token shards goes on over the tensor ranks: all such gradients in one call.
void reduce_over_tokens(kernels::Exec& exec, comm::Communicator& tensor,
                        parameters::ParameterSet& set) {
  int64_t elements = 0;
  for (const Parameter& parameter : set.all()) {
    if (parameter.declaration().partials_over_tensor) elements += parameter.owned().count;
  }
  if (elements == 0) return;
  const device::Tensor flat = exec.workspace.tensor(set.storage().master, Shape{elements});
  const auto for_each_part = [&](auto move) {
    int64_t offset = 0;
    for (const Parameter& parameter : set.all()) {
      if (!parameter.declaration().partials_over_tensor || !parameter.trainable()) continue;
      const int64_t count = parameter.owned().count;
      move(parameter.owned_part(parameter.gradient()), flat.view.rows(offset, count));
      offset += count;
    }
  };
  for_each_part([&](View gradient, View part) { exec.device.copy(part, gradient); });
  parallel::tree_all_reduce(exec, tensor, flat, "gradients.tokens");
  for_each_part([&](View gradient, View part) { exec.device.copy(gradient, part); });
}

}  // namespace

void combine_gradients(kernels::Exec& exec, const parallel::Mesh& mesh,
                       parameters::ParameterSet& set, Parameter* tied) {
  const device::NameScope scope(exec.device, "gradients");
  if (tied != nullptr && tied->trainable()) exchange_tied(mesh, *tied);
  for (Parameter& parameter : set.all()) {
    if (parameter.owned().count == 0) continue;
    if (parameter.num_gradients() == 2) {
      kernels::add(exec, parameter.owned_part(parameter.gradient_sum(0)),
                   parameter.owned_part(parameter.gradient_sum(1)),
                   parameter.owned_part(parameter.gradient()));
    }
    if (const int partials = parameter.declaration().gradient_partials; partials > 1) {
      kernels::tree_sum(exec, {parameter.gradient_sum(),
                               parameter.gradient().reshape(Shape{parameter.local_elements()})});
    }
  }
  reduce_over_tokens(exec, mesh.tensor(), set);
}

}  // namespace megalith::optim
