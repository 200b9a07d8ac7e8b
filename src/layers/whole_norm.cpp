// SPDX-License-Identifier: Apache-2.0
#include "layers/whole_norm.h"

#include <algorithm>

#include "kernels/reduction/tree_sum.h"
#include "layers/norm.h"
#include "parallel/canonical.h"
#include "parallel/rank_blocks.h"

namespace megalith::layers {

WholeNorm::WholeNorm(parameters::ParameterSet& set, const std::string& name,
                     const AttentionSpec& spec, const NormSpec& norm, const Partition& partition)
    : spec_(spec), norm_(norm), name_(name) {
  const auto declare = [&](const char* which, int64_t heads) {
    parameters::Declaration weight = norm_weight(name + which, heads * spec.head_dim, norm);
    weight.shard = partition.cut(weight.shape, 0);
    weight.canonical_shards = partition.tensor_shards;
    return &set.declare(weight);
  };
  weights_ = {declare(".q_norm", spec.heads), declare(".k_norm", spec.kv_heads)};
}

/// out = the tree over the parts of all ranks; of ranks that share a key head the first one's.
void WholeNorm::total(Context& context, const Totals& out, Fill fill) const {
  const LocalHeads heads = local_heads(spec_, context);
  const int64_t shards = context.local_shards(), ranks = context.tensor.size();
  const std::array<int64_t, 2> parts = {shards, std::min(shards, heads.kv)};
  const auto columns = [&](size_t which) {
    return out[which].absent() ? 0 : out[which].num_elements();
  };
  const std::array<int64_t, 2> begin = {0, columns(0)};
  const int64_t all = columns(0) + columns(1);
  device::Tensor gathered;
  if (ranks > 1) gathered = context.workspace(context.accumulation, Shape{ranks, all});
  const View own = ranks > 1 ? gathered.view.rows(context.tensor.rank(), 1) : View{};
  for (size_t which = 0; which < 2; ++which) {
    const int64_t n = columns(which);
    if (n == 0) continue;
    const device::Tensor sums = context.workspace(context.accumulation, Shape{parts[which], n});
    fill(which, sums);
    const View here = ranks > 1 ? own.columns(begin[which], n).reshape(Shape{n}) : out[which];
    kernels::tree_sum(context.exec, {sums, here});
  }
  if (ranks == 1) return;
  parallel::all_gather_rows(context.exec, context.tensor, own, gathered, name_);
  for (size_t which = 0; which < 2; ++which) {
    const int64_t n = columns(which), step = sharers(heads, which);
    if (n == 0) continue;
    const ConstView column = gathered.view.columns(begin[which], n);
    kernels::tree_sum(
        context.exec,
        {ConstView(column.data(), column.dtype(), Shape{ranks / step, n}, step * all), out[which]});
  }
}

kernels::RowTotals WholeNorm::totals_of(size_t which, const WholeNormSaved& saved) const {
  const int64_t heads = which == 0 ? spec_.heads : spec_.kv_heads;
  return {.sum_T = has_mean() ? saved.sum_T[which].view : View{},
          .squares_T = saved.squares_T[which],
          .width = heads * spec_.head_dim,
          .eps = static_cast<float>(norm_.eps)};
}

/// [heads, D] of the heads on this rank; a shared head's is brought together in `gathered`.
ConstView WholeNorm::weight(Context& context, size_t which, device::Tensor& gathered) const {
  const LocalHeads heads = local_heads(spec_, context);
  const ConstView own = weights_[which]->compute();
  const int64_t ranks = sharers(heads, which), n = own.num_elements();
  if (ranks == 1) return own.reshape(Shape{n / heads.size, heads.size});
  gathered = context.workspace(own.dtype(), Shape{ranks, n});
  context.device().copy(gathered.view.rows(context.tensor.rank() % ranks, 1),
                        own.reshape(Shape{1, n}));
  parallel::gather_in_block(context.tensor, heads.sharers, gathered, weights_[which]->name());
  return gathered.view.reshape(Shape{1, heads.size});
}

void WholeNorm::forward(Context& context, const ConstQueriesAndKeys& x, const QueriesAndKeys& y,
                        WholeNormSaved* saved) const {
  WholeNormSaved passing;
  WholeNormSaved& keep = saved != nullptr ? *saved : passing;
  const auto place = [&](std::array<device::Tensor, 2>& where) -> Totals {
    Totals totals;
    for (size_t which = 0; which < 2; ++which) {
      if (x[which].absent()) continue;
      const Shape rows{x[which].num_rows};
      where[which] = saved != nullptr ? context.saved(context.accumulation, rows)
                                      : context.workspace(context.accumulation, rows);
      totals[which] = where[which];
    }
    return totals;
  };
  if (has_mean()) {
    total(context, place(keep.sum_T), [&](size_t which, View parts_PT) {
      kernels::whole_norm_sums(context.exec, {.x_TND = x[which], .sums_PT = parts_PT});
    });
  }
  total(context, place(keep.squares_T), [&](size_t which, View parts_PT) {
    kernels::whole_norm_sums(context.exec, {.x_TND = x[which],
                                            .sums_PT = parts_PT,
                                            .squares = true,
                                            .sum_T = totals_of(which, keep).sum_T,
                                            .width = totals_of(which, keep).width});
  });
  recompute(context, x, y, keep);
}

void WholeNorm::recompute(Context& context, const ConstQueriesAndKeys& x, const QueriesAndKeys& y,
                          const WholeNormSaved& saved) const {
  for (size_t which = 0; which < 2; ++which) {
    if (x[which].absent()) continue;
    device::Tensor gathered;
    kernels::whole_norm_forward(context.exec, {.x_TND = x[which],
                                               .gamma_ND = weight(context, which, gathered),
                                               .y_TND = y[which],
                                               .totals = totals_of(which, saved),
                                               .gamma_offset = static_cast<float>(norm_.offset)});
  }
}

/// Of a shared head each rank adds up the columns whose weights it has.
void WholeNorm::weight_gradients(Context& context, const QueriesAndKeys& dy,
                                 const ConstQueriesAndKeys& x, const WholeNormSaved& saved) const {
  const LocalHeads heads = local_heads(spec_, context);
  for (size_t which = 0; which < 2; ++which) {
    if (x[which].absent() || !weights_[which]->trainable()) continue;
    const int64_t ranks = sharers(heads, which), part = exact_div(heads.size, ranks);
    const int64_t first = context.tensor.rank() % ranks * part;
    const auto own = [&](kernels::ConstHeadsView all) {
      all.data += first * bytes_of(all.dtype);
      all.head_size = part;
      return all;
    };
    kernels::whole_norm_weight_gradient(
        context.exec,
        {.dy_TND = own(dy[which]),
         .x_TND = own(x[which]),
         .dgamma_ND = weights_[which]->gradient_sum().reshape(Shape{x[which].num_heads, part}),
         .totals = totals_of(which, saved)});
  }
}

void WholeNorm::backward(Context& context, const QueriesAndKeys& dy, const ConstQueriesAndKeys& x,
                         const WholeNormSaved& saved) const {
  weight_gradients(context, dy, x, saved);
  std::array<device::Tensor, 2> gathered, sums;
  std::array<ConstView, 2> gamma;
  Totals totals;  // [<g x^>] or [<g>, <g x^>]
  for (size_t which = 0; which < 2; ++which) {
    if (x[which].absent()) continue;
    gamma[which] = weight(context, which, gathered[which]);
    sums[which] =
        context.workspace(context.accumulation, Shape{(has_mean() ? 2 : 1) * x[which].num_rows});
    totals[which] = sums[which];
  }
  const auto offset = static_cast<float>(norm_.offset);
  total(context, totals, [&](size_t which, View parts_PN) {
    const int64_t rows = x[which].num_rows, first = parts_PN.size(1) - rows;
    kernels::whole_norm_gradient_sums(context.exec,
                                      {.dy_TND = dy[which],
                                       .x_TND = x[which],
                                       .gamma_ND = gamma[which],
                                       .sums_PT = has_mean() ? parts_PN.columns(0, rows) : View{},
                                       .products_PT = parts_PN.columns(first, rows),
                                       .totals = totals_of(which, saved),
                                       .gamma_offset = offset});
  });
  for (size_t which = 0; which < 2; ++which) {
    if (x[which].absent()) continue;
    const int64_t rows = x[which].num_rows, first = totals[which].size(0) - rows;
    kernels::whole_norm_backward(context.exec,
                                 {.dy_TND = dy[which],
                                  .x_TND = x[which],
                                  .gamma_ND = gamma[which],
                                  .sum_g_T = has_mean() ? totals[which].rows(0, rows) : View{},
                                  .product_T = totals[which].rows(first, rows),
                                  .dx_TND = dy[which],
                                  .totals = totals_of(which, saved),
                                  .gamma_offset = offset});
  }
}

}  // namespace megalith::layers
