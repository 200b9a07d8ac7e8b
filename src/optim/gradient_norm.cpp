// SPDX-License-Identifier: Apache-2.0
// The squares are summed in blocks of a canonical shard's elements, which an owner of a run of
// elements holds whole (parameters/ownership.h); then the blocks of each shard in order, then the
// shards in the order of the whole model.
#include <algorithm>

#include "kernels/elementwise/pointwise.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/reduction/norms.h"
#include "kernels/reduction/tree_sum.h"
#include "optim/gradients.h"

namespace megalith::optim {
namespace {

using parameters::ElementRange;
using parameters::Parameter;

/// None of a frozen parameter.
int64_t blocks_per_shard(const Parameter& parameter) {
  if (!parameter.trainable()) return 0;
  return kernels::num_square_partials(parameter.local_elements() /
                                      parameter.local_canonical_shards());
}

/// The blocks of the owned elements of one canonical shard of columns, into their places among
/// blocks_B, all blocks of that shard.
void block_sums_of_columns(kernels::Exec& exec, const Parameter& parameter, int shard,
                           View blocks_B) {
  const View gradient = parameter.gradient();
  const int64_t columns = gradient.size(1) / parameter.local_canonical_shards();
  const int64_t first = parameter.owned().begin / gradient.size(1);
  const int64_t rows = parameter.owned().count / gradient.size(1);
  const device::Tensor packed = exec.workspace.tensor(gradient.dtype(), Shape{rows, columns});
  exec.device.copy(packed, gradient.rows(first, rows).columns(shard * columns, columns));
  kernels::sum_of_squares(exec, {packed.view.reshape(Shape{rows * columns}),
                                 blocks_B.rows(first * columns / kernels::kSquaresBlock,
                                               kernels::num_square_partials(rows * columns))});
}

/// blocks_B (f64): the sums of squares of the owned elements, shard after shard; other places are
/// left alone.
void block_sums(kernels::Exec& exec, const Parameter& parameter, View blocks_B) {
  const int shards = parameter.local_canonical_shards();
  const int64_t elements = parameter.local_elements() / shards;
  const bool by_columns = parameter.declaration().shard.dim == 1 && shards > 1;
  const ElementRange& owned = parameter.owned();
  if (owned.count == 0) return;
  for (int s = 0; s < shards; ++s) {
    const View blocks = blocks_B.rows(s * blocks_per_shard(parameter), blocks_per_shard(parameter));
    if (by_columns) {
      block_sums_of_columns(exec, parameter, s, blocks);
      continue;
    }
    const int64_t begin = std::max(owned.begin, s * elements);
    const int64_t end = std::min(owned.begin + owned.count, (s + 1) * elements);
    if (begin >= end) continue;
    const View part =
        parameter.gradient().reshape(Shape{parameter.local_elements()}).rows(begin, end - begin);
    kernels::sum_of_squares(exec,
                            {part, blocks.rows((begin - s * elements) / kernels::kSquaresBlock,
                                               kernels::num_square_partials(end - begin))});
  }
}

/// The sum over a group of vectors of which all ranks but one hold zero in every place: exact.
void merge(kernels::Exec& exec, comm::Communicator& group, View x) {
  if (group.size() == 1 || x.size(0) == 0) return;  // a stage may train nothing
  const device::Tensor all = exec.workspace.tensor(x.dtype(), Shape{group.size(), x.size(0)});
  group.wait(group.start_all_gather(x.reshape(Shape{1, x.size(0)}), all, "gradient.squares"));
  kernels::tree_sum(exec, {all, x});
}

/// Whether this rank's sums count: what several tensor ranks or stages hold does once.
bool counts(const parallel::Mesh& mesh, const Parameter& parameter) {
  const bool whole_here = parameter.declaration().canonical_shards == 1;
  if (!parameter.trainable() || parameter.declaration().is_copy) return false;
  return !(whole_here && mesh.at().tensor != 0);
}

}  // namespace

NormOrder::NormOrder(const parameters::ParameterSet& whole) {
  for (const Parameter& parameter : whole.all()) {
    if (!parameter.trainable()) continue;
    first_[parameter.name()] = size_;
    size_ += parameter.declaration().canonical_shards;
  }
}

GradientNorm gradient_norm(kernels::Exec& exec, const parallel::Mesh& mesh,
                           const parameters::ParameterSet& set, const NormOrder& order, double clip,
                           ConstView loss_scale) {
  const device::NameScope scope(exec.device, "gradients");
  int64_t num_blocks = 0;
  for (const Parameter& parameter : set.all()) {
    num_blocks += parameter.local_canonical_shards() * blocks_per_shard(parameter);
  }
  const device::Tensor blocks = exec.workspace.tensor(DType::f64, Shape{num_blocks});
  exec.device.fill_zero(blocks);
  const auto for_each = [&](auto body) {
    int64_t at = 0;
    for (const Parameter& parameter : set.all()) {
      const int64_t count = parameter.local_canonical_shards() * blocks_per_shard(parameter);
      if (counts(mesh, parameter)) body(parameter, blocks.view.rows(at, count));
      at += count;
    }
  };
  for_each([&](const Parameter& parameter, View own) { block_sums(exec, parameter, own); });
  if (set.storage().owners > 1) merge(exec, mesh.data(), blocks);
  const device::Tensor sums = exec.workspace.tensor(DType::f64, Shape{order.size()});
  exec.device.fill_zero(sums);
  for_each([&](const Parameter& parameter, View own) {
    const int64_t each = blocks_per_shard(parameter);
    const int64_t first = order.first_of(parameter.name());
    for (int s = 0; s < parameter.local_canonical_shards(); ++s) {
      const View sum = sums.view.rows(first + parameter.canonical_shard(s), 1);
      kernels::ordered_sum(exec, {.x = own.rows(s * each, each), .y = sum});
    }
  });
  merge(exec, mesh.tensor(), sums);
  merge(exec, mesh.pipeline(), sums);
  const device::Tensor total = exec.workspace.tensor(DType::f64, Shape{1});
  kernels::ordered_sum(exec, {.x = sums, .y = total});
  const DType dtype = set.storage().master;
  GradientNorm result{exec.workspace.tensor(DType::f64, Shape{1}),
                      exec.workspace.tensor(dtype, Shape{1})};
  const device::Tensor factor = exec.workspace.tensor(DType::f32, Shape{1});
  kernels::clip_factor(exec, {total, clip, factor, result.norm, loss_scale});
  kernels::cast(exec, factor, result.factor);
  return result;
}

}  // namespace megalith::optim
