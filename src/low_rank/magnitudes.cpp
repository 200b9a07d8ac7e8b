// SPDX-License-Identifier: Apache-2.0
#include "low_rank/magnitudes.h"

#include <cmath>

#include "kernels/elementwise/pointwise.h"
#include "kernels/narrow/widen.h"
#include "kernels/reduction/column_sum.h"
#include "kernels/reduction/row_norms.h"
#include "low_rank/row_norms.h"

namespace megalith::low_rank {
namespace {

using layers::Batch;
using layers::Context;
using parameters::Declaration;
using parameters::Init;
using parameters::Parameter;

Declaration declaration_of(const layers::FactoredProduct& product, DType dtype) {
  const Declaration& weight = product.weight.declaration();
  const Shape shape{weight.shape[0]};
  const double norm = weight.init.std * std::sqrt(static_cast<double>(weight.shape[1]));
  Declaration m{magnitudes_of(weight.name), shape,
                product.is_row ? Shard::whole(shape) : weight.shard,
                Init{.kind = Init::Kind::constant, .value = norm},
                product.is_row ? 1 : weight.canonical_shards};
  m.format = plain_format(dtype);
  m.is_added = true;
  return m;
}

/// Of the outputs here, those of no module.
std::vector<ColumnRun> others_of(const layers::FactoredProduct& product,
                                 const ProductRanks& ranks) {
  const Declaration& weight = product.weight.declaration();
  std::vector<Range> local =
      outputs_of(ranks.by_output, product.is_row ? Shard::whole(weight.shape) : weight.shard);
  for (Range& own : local) own = own.empty() ? Range{0, 1} : Range{};
  return column_runs(local);
}

/// What products read of a weight (layers/widened.h), in `made` where that is not what is stored.
Weight numbers_of(kernels::Exec& exec, const Parameter& weight, device::Tensor& made) {
  if (!weight.widens_to()) return weight.compute();
  made = exec.workspace.tensor(*weight.widens_to(), weight.local_shape());
  kernels::widen(exec, weight.compute(), made);
  return Weight(made.view);
}

}  // namespace

ScaledFactors::ScaledFactors(parameters::ParameterSet& set, const layers::FactoredProduct& product,
                             const ProductRanks& ranks, const FactoredProducts& all, DType dtype)
    : weight_(product.weight),
      factors_(set, product, ranks, all, dtype),
      m_(&set.declare(declaration_of(product, dtype))),
      is_row_(product.is_row),
      others_(others_of(product, ranks)) {
  MEGA_CHECK(all.dropout == 0, "magnitudes of factors whose input is dropped");
}

device::Tensor ScaledFactors::over_norms(Context& context, ConstView numerator_O) const {
  const device::Tensor b_RO = factors_.scaled_second(context);
  device::Tensor numbers;
  device::Tensor n_O = context.workspace(context.accumulation, numerator_O.shape());
  row_norms(context.exec, context.tensor,
            {.w_OI = numbers_of(context.exec, weight_, numbers),
             .a_RI = factors_.first_RI(),
             .b_RO = b_RO,
             .n_O = n_O,
             .k_shards = is_row_ ? context.local_shards() : 1,
             .sums = is_row_},
            m_->name());
  kernels::divide(context.exec, numerator_O, n_O, n_O);
  return n_O;
}

void ScaledFactors::fill_others(Context& context, View vector_O, double value) const {
  for (const ColumnRun& run : others_) {
    if (run.step == 2 && 2 * run.count == vector_O.size(0)) {
      const View pairs = vector_O.reshape(Shape{run.count, 2});
      kernels::fill(context.exec, pairs.columns(run.begin, 1), value);
      continue;
    }
    const int64_t width = run.step == 1 ? run.count : 1;
    for (int64_t i = 0; i < run.count; i += width)
      kernels::fill(context.exec, vector_O.rows(run.begin + i * run.step, width), value);
  }
}

device::Tensor ScaledFactors::scale(Context& context) const {
  device::Tensor g_O = over_norms(context, ConstView(m_->compute()));
  fill_others(context, g_O, 1);
  return g_O;
}

void ScaledFactors::forward(Context& context, const Batch& batch, ConstView x_TI, View y) const {
  factors_.forward(context, batch, x_TI, y);
  kernels::scale(context.exec, y, scale(context));
}

ConstView ScaledFactors::output_gradient(Context& context, ConstView dy_TO, ConstView,
                                         device::Tensor& made) const {
  made = context.workspace(dy_TO.dtype(), dy_TO.shape());
  context.device().copy(made, dy_TO);
  kernels::scale(context.exec, made, scale(context));
  return made;
}

void ScaledFactors::add_output_gradients(Context& context, const Batch& batch, ConstView dy_TO,
                                         ConstView x_TI, View z_TO) const {
  factors_.forward(context, batch, x_TI, z_TO);
  const device::Tensor ones = context.workspace(context.accumulation, m_->local_shape());
  kernels::fill(context.exec, ones, 1);
  kernels::scale(context.exec, z_TO, over_norms(context, ones));
  const View sum_O = m_->gradient_sum();
  kernels::column_sum(context.exec,
                      {dy_TO, sum_O.reshape(Shape{1, m_->local_elements()}), {}, z_TO});
  fill_others(context, sum_O, 0);
}

void ScaledFactors::backward(Context& context, const Batch& batch, ConstView dz_TO, ConstView x_TI,
                             View dx) const {
  factors_.backward(context, batch, dz_TO, x_TI, dx);
}

void begin_magnitudes(kernels::Exec& exec, comm::Communicator& tensor,
                      parameters::ParameterSet& set) {
  const DType dtype = set.storage().master;
  for (Parameter& weight : set.all()) {
    if (!weight.declaration().is_layer_product) continue;
    Parameter* const m = set.find(magnitudes_of(weight.name()));
    if (m == nullptr) continue;
    const bool is_row = weight.declaration().shard.dim == 1;
    device::Tensor numbers;
    const device::Tensor n_O = exec.workspace.tensor(dtype, m->local_shape());
    row_norms(exec, tensor,
              {.w_OI = numbers_of(exec, weight, numbers),
               .a_RI = {},
               .b_RO = {},
               .n_O = n_O,
               .k_shards = is_row ? weight.local_canonical_shards() : 1,
               .sums = is_row},
              m->name());
    std::vector<std::byte> host(static_cast<size_t>(n_O.view.bytes()));
    exec.device.wait(exec.device.copy_to_host(host.data(), n_O));
    set.load(exec.device, *m, dtype, host.data());
    exec.device.wait(exec.device.last());
  }
}

}  // namespace megalith::low_rank
