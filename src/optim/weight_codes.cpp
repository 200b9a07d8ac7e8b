// SPDX-License-Identifier: Apache-2.0
#include "optim/weight_codes.h"

#include <span>
#include <utility>
#include <vector>

#include "kernels/elementwise/pointwise.h"
#include "optim/sharding.h"

namespace megalith::optim {

using precision::element;
using precision::Operand;
using precision::Scaling;
using precision::ScalingPolicy;

namespace {

/// The set's, with their numbers in the model.
using NarrowWeights = std::vector<std::pair<size_t, const parameters::Parameter*>>;
NarrowWeights narrow_weights(const precision::Fp8& fp8, const parameters::ParameterSet& set) {
  NarrowWeights weights;
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

namespace {

/// current: the magnitudes of whole weights, f32 [products], from those of parts; absent else.
template <typename Part>
device::Tensor magnitudes(kernels::Exec& exec, std::span<comm::Communicator* const> holders,
                          const precision::Fp8& fp8, const NarrowWeights& weights,
                          const Part& part) {
  if (fp8.options().scaling.policy != ScalingPolicy::current) return {};
  device::Tensor amax_N = exec.workspace.tensor(DType::f32, Shape{std::ssize(fp8.products())});
  kernels::fill(exec, amax_N, 0);
  for (const auto& [product, parameter] : weights) {
    const ConstView x = part(*parameter);
    if (x.num_elements() > 0)
      Scaling::measure(exec, x, element(amax_N.view, static_cast<int64_t>(product)));
  }
  for (comm::Communicator* group : holders)
    if (group->size() > 1) group->wait(group->start_all_reduce_max(amax_N, "fp8.weights"));
  return amax_N;
}

/// Of one product; absent where all are.
View magnitude_of(const device::Tensor& amax_N, size_t product) {
  return amax_N.view.absent() ? View() : element(amax_N.view, static_cast<int64_t>(product));
}

/// What a rank casts of a view of [local shape]: what it owns, as [1, count], or all of what nobody
/// updates.
template <typename AnyView>
AnyView own_part(const parameters::Parameter& parameter, const AnyView& local) {
  if (!parameter.trainable()) return local;
  return parameter.owned_part(local).reshape(Shape{1, parameter.owned().count});
}

}  // namespace

void cast_weights(kernels::Exec& exec, comm::Communicator& tensor, precision::Fp8& fp8,
                  const parameters::ParameterSet& set) {
  Scaling& scaling = fp8.scaling(Operand::weight);
  if (!scaling.scales_tensors()) return;
  const NarrowWeights weights = narrow_weights(fp8, set);
  comm::Communicator* const holders[] = {&tensor};
  const device::Tensor amax_N =
      magnitudes(exec, holders, fp8, weights,
                 [](const parameters::Parameter& p) { return ConstView(p.compute()); });
  for (const auto& [product, parameter] : weights) {
    const auto& [codes, scale] = fp8.weight(product);
    scaling.quantize(exec, product, parameter->compute(),
                     {.codes = codes,
                      .scales = scale,
                      .amax = magnitude_of(amax_N, product),
                      .counts = fp8.count(Operand::weight, product, codes.num_elements())},
                     fp8.record());
  }
}

void share_codes(kernels::Exec& exec, const parallel::Mesh& mesh, precision::Fp8& fp8,
                 const parameters::ParameterSet& set) {
  const device::NameScope scope(exec.device, "optimizer");
  Scaling& scaling = fp8.scaling(Operand::weight);
  const NarrowWeights weights = narrow_weights(fp8, set);
  const auto own = [](const parameters::Parameter& p) {
    return ConstView(own_part(p, p.mutable_compute()));
  };
  comm::Communicator* const holders[] = {&mesh.tensor(), &mesh.data()};
  const device::Tensor amax_N = magnitudes(exec, holders, fp8, weights, own);
  for (const auto& [product, parameter] : weights) {
    const auto& [codes, scale] = fp8.weight(product);
    scaling.quantize(exec, product, own(*parameter),
                     {.codes = own_part(*parameter, codes),
                      .scales = scale,
                      .amax = magnitude_of(amax_N, product)},
                     Scaling::Record::nothing);
  }
  share_owned(mesh.data(), set, fp8.flat_weight_codes(), [&](const parameters::Parameter& p) {
    const auto product = fp8.find(p.name());
    return product ? fp8.weight(*product).codes : View();
  });
}

void record_weights(kernels::Exec& exec, precision::Fp8& fp8, const parameters::ParameterSet& set) {
  if (fp8.record() == Scaling::Record::nothing) return;
  for (const auto& [product, parameter] : narrow_weights(fp8, set)) {
    const ConstView own = own_part(*parameter, parameter->mutable_compute());
    if (own.num_elements() > 0) fp8.scaling(Operand::weight).record(exec, product, own);
  }
}

}  // namespace megalith::optim
