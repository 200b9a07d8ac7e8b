// SPDX-License-Identifier: Apache-2.0
#include "precision/fp8.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/integer.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/narrow/quantize.h"

namespace megalith::precision {
namespace {

constexpr int64_t kCounts = kernels::kQuantizeCounts + 1;

}  // namespace

Fp8::Fp8(device::Device& device, const Fp8Options& options, std::vector<std::string> products)
    : options_(options),
      input_(device, options.scaling, Operand::input, products),
      weight_(device, options.scaling, Operand::weight, products),
      gradient_(device, options.scaling, Operand::output_gradient, std::move(products)),
      device_(device),
      weights_(input_.names().size()) {
  for (size_t i = 0; i < this->products().size(); ++i) {
    const bool is_new = index_.emplace(this->products()[i], i).second;
    MEGA_CHECK(is_new, "two products have the weight {}", this->products()[i]);
  }
  wide_.resize(index_.size());
  elements_.resize(3 * index_.size());
  if (!input_.scales_tensors()) return;
  counts_ = device.arena(device::MemoryClass::optimizer)
                .tensor(DType::i64, {std::ssize(elements_), kCounts});
  device.fill_zero(counts_);
}

void Fp8::allocate_weights(const std::vector<size_t>& numbers, const std::vector<Shape>& shapes) {
  if (!weight_.scales_tensors() || numbers.empty()) return;
  MEGA_CHECK(flat_codes_.view.absent(), "memory for codes of weights taken twice");
  constexpr int64_t kAlignment = 64;
  int64_t elements = 0;
  for (const Shape& shape : shapes) elements += round_up(shape.num_elements(), kAlignment);
  device::Arena& arena = device_.arena(device::MemoryClass::weights);
  flat_codes_ = arena.tensor(weight_.code_type(), {elements});
  weight_scales_ = arena.tensor(DType::f32, {std::ssize(numbers)});
  int64_t offset = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    weights_[numbers[i]] = {
        View(flat_codes_.view.data() + offset, weight_.code_type(), shapes[i]),
        View(weight_scales_.view.data() + static_cast<int64_t>(i * sizeof(float)), DType::f32,
             Shape{1})};
    offset += round_up(shapes[i].num_elements(), kAlignment);
  }
}

std::optional<size_t> Fp8::find(std::string_view weight) const {
  const auto found = index_.find(std::string(weight));
  if (found == index_.end() || all_wide_ || wide_[found->second]) return std::nullopt;
  return found->second;
}

InputKept Fp8::input_kept(std::string_view weight) const {
  const bool has_codes = options_.weight_gradients && input_.scales_tensors();
  if (!has_codes || !index_.contains(std::string(weight))) return InputKept::numbers;
  return find(weight) ? InputKept::codes : InputKept::made_again;
}

void Fp8::forget(kernels::Exec& exec, size_t product) {
  for (Scaling* scaling : {&input_, &weight_, &gradient_}) scaling->forget(exec, product);
}

View Fp8::count(Operand operand, size_t product, int64_t elements) {
  if (counts_.view.absent() || !counting_) return {};
  const size_t row = static_cast<size_t>(operand) * products().size() + product;
  elements_[row] += elements;
  return counts_.view.rows(static_cast<int64_t>(row), 1)
      .columns(0, kernels::kQuantizeCounts)
      .reshape(Shape{kernels::kQuantizeCounts});
}

std::vector<OperandShares> Fp8::take_shares(
    kernels::Exec& exec, const std::function<void(View counts)>& sum_over_ranks) {
  if (counts_.view.absent()) return {};
  const View all = counts_.view;
  device::Device& device = exec.device;
  std::vector<int64_t> host(static_cast<size_t>(all.num_elements()));
  device.wait(device.copy_to_host(host.data(), all));
  for (size_t row = 0; row < elements_.size(); ++row)
    host[row * kCounts + kernels::kQuantizeCounts] = std::exchange(elements_[row], 0);
  device.wait(device.copy_to_device(all, host.data()));
  sum_over_ranks(all.reshape(Shape{all.num_elements()}));
  device.wait(device.copy_to_host(host.data(), all));
  device.fill_zero(all);
  std::vector<OperandShares> shares(products().size());
  for (size_t row = 0; row < elements_.size(); ++row) {
    const int64_t* counted = host.data() + row * kCounts;
    const auto elements = static_cast<double>(std::max<int64_t>(1, counted[kCounts - 1]));
    OperandShares& share = shares[row % products().size()];
    share.saturated = std::max(share.saturated, static_cast<double>(counted[0]) / elements);
    share.flushed = std::max(share.flushed, static_cast<double>(counted[1]) / elements);
  }
  return shares;
}

device::Tensor Fp8::staged(kernels::Exec& exec) const {
  if (input_.staged().absent()) return {};
  const auto n = static_cast<int64_t>(products().size());
  device::Tensor staged_3N = exec.workspace.tensor(DType::f32, {3, n});
  int64_t row = 0;
  for (const Scaling* scaling : {&input_, &weight_, &gradient_})
    kernels::cast(exec, scaling->staged(), staged_3N.view.rows(row++, 1).reshape(Shape{n}));
  return staged_3N;
}

void Fp8::set_staged(kernels::Exec& exec, ConstView staged_3N) {
  int64_t row = 0;
  for (const Scaling* scaling : {&input_, &weight_, &gradient_}) {
    const View to = scaling->staged();
    kernels::cast(exec, staged_3N.rows(row++, 1).reshape(to.shape()), to);
  }
}

void Fp8::restored() {
  for (Scaling* scaling : {&input_, &weight_, &gradient_}) scaling->restored();
}

void Fp8::update(kernels::Exec& exec) {
  for (Scaling* scaling : {&input_, &weight_, &gradient_}) scaling->update(exec);
}

device::Tensor product_factors(kernels::Exec& exec, ConstView a, ConstView b) {
  if (a.absent()) return {};
  const bool swapped = b.size(0) > a.size(0);
  const ConstView many = swapped ? b : a, few = swapped ? a : b;
  device::Tensor factors = exec.workspace.tensor(DType::f32, many.shape());
  kernels::cast(exec, many, factors);
  for (int64_t n = 0; n < many.size(0); ++n)
    kernels::scale(exec, element(factors.view, n), element(few, few.size(0) == 1 ? 0 : n));
  return factors;
}

}  // namespace megalith::precision
