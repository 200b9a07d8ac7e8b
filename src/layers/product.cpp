// SPDX-License-Identifier: Apache-2.0
#include "layers/product.h"

#include <utility>

#include "kernels/elementwise/pointwise.h"
#include "kernels/matmul/row_runs.h"
#include "layers/widened.h"
#include "tensor/blocks.h"

namespace megalith::layers {

using precision::Along;
using precision::element;
using precision::Operand;
using precision::Scaling;
using precision::ScalingPolicy;

namespace {

template <typename AnyView>
AnyView rows_of(const AnyView& optional, int64_t begin, int64_t count) {
  return optional.absent() ? optional : optional.rows(begin, count);
}

/// Calls run(first row, rows, factor) for all rows, or for each sample's where factors are theirs.
template <typename Run>
void for_each_factor(ConstView factors, int64_t rows, const Run& run) {
  if (factors.absent()) return run(0, rows, ConstView());
  const int64_t each = exact_div(rows, factors.size(0));
  for (int64_t n = 0; n < factors.size(0); ++n) run(n * each, each, element(factors, n));
}

}  // namespace

std::vector<Range> equal_parts(int64_t count, int64_t parts) {
  std::vector<Range> ranges;
  const int64_t each = exact_div(count, parts);
  for (int64_t begin = 0; begin < count; begin += each) ranges.push_back({begin, begin + each});
  return ranges;
}

Product::Product(Context& context, const Batch& batch, const parameters::Parameter& weight,
                 const ProductCut& cut)
    : context_(context), batch_(batch), weight_(weight), cut_(cut) {
  if (context.fp8 != nullptr) index_ = context.fp8->find(weight.name());
}

bool Product::is_cut(Operand operand) const {
  return operand == Operand::input ? cut_.inputs_cut : cut_.outputs_cut;
}

Product::Read Product::read(Operand operand, ConstView x, Along along, Reading reading,
                            InputCodes* keep) const {
  if (!is_narrow()) return {x, {}, {}, {}};
  const Scaling& scaling = context_.fp8->scaling(operand);
  return scaling.scales_tensors() ? codes(operand, x, reading, keep) : numbers(operand, x, along);
}

/// Nothing where it is read as it is: it may be in blocks.
Product::Read Product::read_weight(Along along) const {
  if (!is_narrow()) {
    Read made;
    if (weight_.widens_to()) made.view = as_numbers(context_.exec, weight_, made.made);
    return made;
  }
  if (!context_.fp8->scaling(Operand::weight).scales_tensors())
    return numbers(Operand::weight, weight_.compute(), along);
  const auto& [codes, scale] = context_.fp8->weight(*index_);
  MEGA_CHECK(!codes.absent(), "{} was not cast", weight_.name());
  return {codes, scale, {}, {}};
}
Weight Product::weight_of(const Read& read) const {
  return read.view.absent() ? weight_.compute() : Weight(read.view);
}

/// Of an input or a gradient, with one scale: of the whole tensor, or with `current` of each
/// sample's rows.
Product::Read Product::codes(Operand operand, ConstView x, Reading reading,
                             InputCodes* keep) const {
  Scaling& scaling = context_.fp8->scaling(operand);
  const bool is_current = scaling.options().policy == ScalingPolicy::current;
  const int64_t count = is_current ? batch_.num_samples : 1;
  const int64_t rows = exact_div(x.size(0), count);
  Read made;
  const auto place = keep != nullptr ? &Context::saved : &Context::workspace;
  made.made = (context_.*place)(scaling.code_type(), x.shape());
  made.kept = (context_.*place)(DType::f32, Shape{count});
  made.view = made.made;
  made.scales = made.kept;
  device::Tensor amax;
  if (is_current) {
    amax = context_.workspace(DType::f32, Shape{count});
    kernels::fill(context_.exec, amax, 0);
    for (int64_t n = 0; n < count; ++n)
      Scaling::measure(context_.exec, x.rows(n * rows, rows), element(amax.view, n));
    if (is_cut(operand))
      context_.tensor.wait(context_.tensor.start_all_reduce_max(amax, weight_.name()));
  }
  const View counts =
      reading == Reading::first ? context_.fp8->count(operand, *index_, x.num_elements()) : View();
  for (int64_t n = 0; n < count; ++n) {
    scaling.quantize(context_.exec, *index_, x.rows(n * rows, rows),
                     {.codes = made.made.view.rows(n * rows, rows),
                      .scales = element(made.kept.view, n),
                      .amax = is_current ? element(ConstView(amax), n) : ConstView(),
                      .counts = counts},
                     context_.fp8->record());
  }
  if (keep != nullptr) *keep = {std::move(made.made), std::move(made.kept)};
  return made;
}

/// Blocks begin anew with every piece: of tokens with every sample, else with the cut's ranges.
Product::Read Product::numbers(Operand operand, ConstView x, Along along) const {
  const Scaling& scaling = context_.fp8->scaling(operand);
  Read made;
  made.made = context_.workspace(DType::bf16, x.shape());
  made.view = made.made;
  const bool is_weight = operand == Operand::weight;
  const std::vector<Range> pieces =
      is_weight ? cut_.outputs : equal_parts(x.size(0), batch_.num_samples);
  for (const Range& r : pieces) {
    for (const Range& c : operand == Operand::output_gradient ? cut_.outputs : cut_.inputs) {
      scaling.round(context_.exec, x.rows(r.begin, r.size()).columns(c.begin, c.size()),
                    made.made.view.rows(r.begin, r.size()).columns(c.begin, c.size()), along);
    }
  }
  return made;
}

Product::Factors Product::run(kernels::LinearForward arguments, InputCodes* keep,
                              bool finished) const {
  const Read x = read(Operand::input, arguments.x_TI, Along::columns, Reading::first, keep);
  const Read w = read_weight(Along::columns);
  Factors factors = precision::product_factors(context_.exec, x.scales, w.scales);
  arguments.x_TI = x.view;
  arguments.w_OI = weight_of(w);
  for_each_factor(finished ? ConstView(factors) : ConstView(), x.view.size(0),
                  [&](int64_t begin, int64_t count, ConstView scale) {
                    kernels::LinearForward part = arguments;
                    part.x_TI = x.view.rows(begin, count);
                    part.y_TO = arguments.y_TO.rows(begin, count);
                    part.pre_activation_TO = rows_of(arguments.pre_activation_TO, begin, count);
                    part.scale = scale;
                    kernels::linear_forward(context_.exec, part);
                  });
  return factors;
}

void Product::forward(kernels::LinearForward arguments, InputCodes* keep) {
  run(std::move(arguments), keep, true);
}
void Product::forward_sums(kernels::LinearForward arguments, InputCodes* keep) {
  arguments.unscaled = true;
  pending_ = run(std::move(arguments), keep, false);
  pending_of_rows_ = row_scales(weight_.compute());
}

void Product::set_output_gradient(ConstView dy_TO) {
  dy_TO_ = dy_TO;
  dy_ = read(Operand::output_gradient, dy_TO, Along::columns, Reading::first);
}

Product::Factors Product::run(kernels::LinearBackwardInput arguments,
                              const std::vector<ShardRun>& by_shard, bool finished) const {
  const Read w = read_weight(Along::rows);
  Factors factors = precision::product_factors(context_.exec, dy_.scales, w.scales);
  arguments.dy_TO = dy_.view;
  arguments.w_OI = weight_of(w);
  device::Tensor dy_by_shard, w_by_shard;
  if (!by_shard.empty()) {
    const ConstView stored = arguments.w_OI;
    dy_by_shard = context_.workspace(dy_.view.dtype(), dy_.view.shape());
    w_by_shard = context_.workspace(stored.dtype(), stored.shape());
    for (const ShardRun& run : by_shard) {
      context_.device().copy(dy_by_shard.view.columns(run.local, run.count),
                             dy_.view.columns(run.begin, run.count));
      context_.device().copy(w_by_shard.view.rows(run.local, run.count),
                             stored.rows(run.begin, run.count));
    }
    arguments.dy_TO = dy_by_shard;
    arguments.w_OI = w_by_shard;
  }
  for_each_factor(finished ? ConstView(factors) : ConstView(), dy_.view.size(0),
                  [&](int64_t begin, int64_t count, ConstView scale) {
                    kernels::LinearBackwardInput part = arguments;
                    part.dy_TO = arguments.dy_TO.rows(begin, count);
                    part.dx_TI = arguments.dx_TI.rows(begin, count);
                    part.pre_activation_TI = rows_of(arguments.pre_activation_TI, begin, count);
                    part.scale = scale;
                    kernels::linear_backward_input(context_.exec, part);
                  });
  return factors;
}

void Product::input_gradient(kernels::LinearBackwardInput arguments,
                             const std::vector<ShardRun>& by_shard) {
  run(std::move(arguments), by_shard, true);
}
void Product::input_gradient_sums(kernels::LinearBackwardInput arguments,
                                  const std::vector<ShardRun>& by_shard) {
  pending_ = run(std::move(arguments), by_shard, false);
}

/// Codes add up from 0 within a sample, so that its scale can multiply the sum; numbers continue
/// the chain that is there.
void Product::weight_gradient(ConstView x_TI, View dw_OI, const InputCodes* kept) const {
  const bool is_wide = !is_narrow() || !context_.fp8->options().weight_gradients;
  if (is_wide) {
    return kernels::linear_backward_weight(context_.exec, {dy_TO_, x_TI, dw_OI, batch_.cu_seqlens});
  }
  const bool has_codes = kept != nullptr && !kept->absent();
  const Read x = has_codes ? Read{kept->codes_TI.view, kept->scales.view, {}, {}}
                           : read(Operand::input, x_TI, Along::rows);
  if (x.scales.absent()) {
    const Read dy = read(Operand::output_gradient, dy_TO_, Along::rows);
    return kernels::linear_backward_weight(context_.exec,
                                           {dy.view, x.view, dw_OI, batch_.cu_seqlens});
  }
  const Factors factors = precision::product_factors(context_.exec, dy_.scales, x.scales);
  const int64_t rows = exact_div(x.view.size(0), batch_.num_samples);
  for (int64_t n = 0; n < batch_.num_samples; ++n) {
    const std::vector<int32_t> runs =
        kernels::runs_of_rows(batch_.cu_seqlens, n * rows, (n + 1) * rows);
    kernels::linear_backward_weight(
        context_.exec, {dy_.view.rows(n * rows, rows), x.view.rows(n * rows, rows), dw_OI, runs,
                        element(ConstView(factors), factors.view.size(0) == 1 ? 0 : n)});
  }
}

void Product::scale(View sums) const {
  if (pending_of_rows_) kernels::scale(context_.exec, sums, pending_of_rows_);
  if (pending_.view.absent()) return;
  for_each_factor(pending_, sums.size(0), [&](int64_t begin, int64_t count, ConstView scale) {
    kernels::scale(context_.exec, sums.rows(begin, count), scale);
  });
}

}  // namespace megalith::layers
