// SPDX-License-Identifier: Apache-2.0
#include "precision/scaling.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/narrow/quantize.h"
#include "kernels/narrow/quantize_blocks.h"

namespace megalith::precision {
namespace {

constexpr int64_t kBlock = 128, kMxBlock = 32;

/// Element n of a vector.
View element(const View& vector, size_t n) {
  return {vector.data() + static_cast<int64_t>(n) * bytes_of(vector.dtype()), vector.dtype(),
          Shape{1}};
}

struct Block {
  int64_t rows, columns;
};
Block block_of(ScalingPolicy policy, Operand operand, Along along) {
  const int64_t side = policy == ScalingPolicy::mx ? kMxBlock : kBlock;
  if (policy == ScalingPolicy::block && operand == Operand::weight) return {side, side};
  return along == Along::columns ? Block{1, side} : Block{side, 1};
}

kernels::ScaleRule rule_of(const ScalingOptions& options, DType codes) {
  return {.largest = largest_finite(codes),
          .power_of_two = options.power_of_two,
          .epsilon = options.epsilon};
}

}  // namespace

ScalingOptions ScalingOptions::of(ScalingPolicy policy) {
  ScalingOptions options;
  options.policy = policy;
  if (policy == ScalingPolicy::block || policy == ScalingPolicy::mx) {
    options.format = Fp8Format::e4m3;
  }
  options.power_of_two = policy == ScalingPolicy::block;
  return options;
}

Scaling::Scaling(device::Device& device, const ScalingOptions& options, Operand operand,
                 std::vector<std::string> names)
    : options_(options), operand_(operand), names_(std::move(names)) {
  MEGA_CHECK(options.history >= 1, "a history of {} steps", options.history);
  MEGA_CHECK(options.margin >= 0 && options.margin <= 64, "a margin of {}", options.margin);
  MEGA_CHECK(options.epsilon >= 0 && std::isfinite(options.epsilon), "an epsilon of {}",
             options.epsilon);
  const auto n = static_cast<int64_t>(names_.size());
  device::Arena& arena = device.arena(device::MemoryClass::optimizer);
  kernels::Exec exec(device);
  if (options.policy == ScalingPolicy::delayed) {
    history_HN_ = arena.tensor(DType::f32, {options.history, n});
    kernels::fill(exec, history_HN_, 0);
  }
  if (options.policy == ScalingPolicy::delayed || options.policy == ScalingPolicy::unscaled) {
    scale_N_ = arena.tensor(DType::f32, {n});
    scale_inverse_N_ = arena.tensor(DType::f32, {n});
    kernels::fill(exec, scale_N_, 1);
    kernels::fill(exec, scale_inverse_N_, 1);
  }
}

DType Scaling::code_type() const {
  return options_.format == Fp8Format::hybrid && operand_ == Operand::output_gradient
             ? DType::f8_e5m2
             : DType::f8_e4m3;
}

DType Scaling::scale_type() const {
  return options_.policy == ScalingPolicy::mx ? DType::f8_e8m0 : DType::f32;
}

Shape Scaling::scale_shape(const Shape& shape, Along along) const {
  if (scales_tensors()) return {1};
  const Block block = block_of(options_.policy, operand_, along);
  return kernels::block_scales_shape(shape, block.rows, block.columns);
}

void Scaling::measure(kernels::Exec& exec, ConstView x, View amax) {
  kernels::absolute_maximum(exec, x, amax);
}

void Scaling::quantize(kernels::Exec& exec, size_t index, ConstView x, const Destination& to,
                       Record record, Along along) {
  MEGA_CHECK(index < names_.size(), "tensor {} of {}", index, names_.size());
  if (!scales_tensors()) return quantize_blocks(exec, x, to, along);
  kernels::Quantize arguments = {
      .x = x, .y = to.codes, .transposed = to.transposed, .counts = to.counts};
  device::Tensor factor;
  if (options_.policy == ScalingPolicy::current) {
    factor = exec.workspace.tensor(DType::f32, {1});
    kernels::scale_of_amax(exec, {to.amax, factor, to.scales, rule_of(options_, code_type())});
    arguments.scale = factor;
  } else {
    arguments.scale = element(scale_N_, index);
    if (record == Record::amax && !history().absent()) arguments.amax = element(staged(), index);
    kernels::cast(exec, element(scale_inverse_N_, index), to.scales);
  }
  if (x.num_elements() > 0) kernels::quantize(exec, arguments);
}

void Scaling::record(kernels::Exec& exec, size_t index, ConstView x) {
  if (!history().absent()) kernels::absolute_maximum(exec, x, element(staged(), index));
}

kernels::ScaleRule Scaling::block_rule(DType numbers) const {
  kernels::ScaleRule rule = rule_of(options_, code_type());
  rule.at_most = largest_finite(numbers);
  return rule;
}

void Scaling::quantize_blocks(kernels::Exec& exec, ConstView x, const Destination& to,
                              Along along) const {
  MEGA_CHECK(to.transposed.absent() && to.counts.absent(), "blocks are quantised either way apart");
  const Block block = block_of(options_.policy, operand_, along);
  kernels::quantize_blocks(
      exec, {x, to.codes, to.scales, block.rows, block.columns, block_rule(x.dtype())});
}

void Scaling::round(kernels::Exec& exec, ConstView x, View numbers, Along along) const {
  MEGA_CHECK(!scales_tensors() && (options_.power_of_two || options_.policy == ScalingPolicy::mx),
             "blocks with scales that are powers of two alone come back exactly");
  const Block block = block_of(options_.policy, operand_, along);
  kernels::round_blocks(exec, {x, numbers, code_type(), scale_type(), block.rows, block.columns,
                               block_rule(x.dtype())});
}

View Scaling::staged() const {
  return history_HN_.view.absent() ? View()
                                   : history_HN_.view.rows(0, 1).reshape(scale_N_.view.shape());
}

void Scaling::update(kernels::Exec& exec) {
  if (options_.policy != ScalingPolicy::delayed) return;
  kernels::update_scales(
      exec, {history_HN_, scale_N_, scale_inverse_N_, largest_finite(code_type()), options_.margin,
             options_.choice, options_.power_of_two});
}

void Scaling::forget(kernels::Exec& exec, size_t index) {
  if (options_.policy != ScalingPolicy::delayed) return;
  kernels::fill(exec, history_HN_.view.columns(static_cast<int64_t>(index), 1), 0);
  kernels::fill(exec, element(scale_N_, index), 1);
  kernels::fill(exec, element(scale_inverse_N_, index), 1);
}

void Scaling::restored() {
  if (options_.policy != ScalingPolicy::delayed) return;
  const size_t count = names_.size();
  for (size_t n = 0; n < count; ++n) {
    const float factor = scale().as<float>()[n];
    if (!(factor > 0) || std::isinf(factor)) {
      throw IntegrityError("the scale of {} is {}, which is no positive number", names_[n], factor);
    }
    for (int64_t i = 0; i < history().size(0); ++i) {
      const float amax = history().row<float>(i)[n];
      if (!(amax >= 0)) {
        throw IntegrityError("magnitude {} of the history of {} is {}", i, names_[n], amax);
      }
    }
    scale_inverse_N_.view.as<float>()[n] = 1 / factor;
  }
}

}  // namespace megalith::precision
