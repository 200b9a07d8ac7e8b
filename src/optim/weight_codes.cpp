// SPDX-License-Identifier: Apache-2.0
#include "optim/weight_codes.h"

#include <utility>
#include <vector>

#include "kernels/elementwise/pointwise.h"

namespace megalith::optim {

using precision::element;
using precision::Operand;
using precision::Scaling;
using precision::ScalingPolicy;

namespace {

/// The set's, with their numbers in the model.
std::vector<std::pair<size_t, const parameters::Parameter*>> narrow_weights(
    const precision::Fp8& fp8, const parameters::ParameterSet& set) {
  std::vector<std::pair<size_t, const parameters::Parameter*>> weights;
  for (const parameters::Parameter& parameter : set.all())
    if (const auto product = fp8.find(parameter.name())) weights.emplace_back(*product, &parameter);
  return weights;
}

}  // namespace

void allocate_codes(precision::Fp8& fp8, const parameters::ParameterSet& set) {
  std::vector<size_t> numbers;
  std::vector<Shape> shapes;
  for (const auto& [product, parameter] : narrow_weights(fp8, set)) {
    numbers.push_back(product);
    shapes.push_back(parameter->local_shape());
  }
  fp8.allocate_weights(numbers, shapes);
}

void cast_weights(kernels::Exec& exec, comm::Communicator& tensor, precision::Fp8& fp8,
                  const parameters::ParameterSet& set) {
  Scaling& scaling = fp8.scaling(Operand::weight);
  if (!scaling.scales_tensors()) return;
  const auto weights = narrow_weights(fp8, set);
  device::Tensor amax_N;
  if (scaling.options().policy == ScalingPolicy::current) {
    amax_N = exec.workspace.tensor(DType::f32, Shape{std::ssize(fp8.products())});
    kernels::fill(exec, amax_N, 0);
    for (const auto& [product, parameter] : weights)
      Scaling::measure(exec, parameter->compute(),
                       element(amax_N.view, static_cast<int64_t>(product)));
    if (tensor.size() > 1) tensor.wait(tensor.start_all_reduce_max(amax_N, "fp8.weights"));
  }
  for (const auto& [product, parameter] : weights) {
    const auto& [codes, scale] = fp8.weight(product);
    const View amax =
        amax_N.view.absent() ? View() : element(amax_N.view, static_cast<int64_t>(product));
    scaling.quantize(exec, product, parameter->compute(),
                     {.codes = codes,
                      .scales = scale,
                      .amax = amax,
                      .counts = fp8.count(Operand::weight, product, codes.num_elements())},
                     fp8.record());
  }
}

}  // namespace megalith::optim
