// SPDX-License-Identifier: Apache-2.0
#include "testing/toy_adapter.h"

#include "models/foreign_map.h"

namespace megalith::testing {
namespace {

void fill_factor(const std::string& name, const Shape& shape, const Shard& shard, uint64_t seed,
                 device::Device& device, const View& to) {
  const parameters::Parameter factor({name, shape, shard, {parameters::Init::Kind::normal, 0.3}});
  std::vector<float> values(static_cast<size_t>(factor.local_elements()));
  parameters::initial_value(factor, seed, DType::f32, values.data());
  device.wait(device.copy_to_device(to, values.data()));
}

}  // namespace

layers::AdapterRanks toy_adapter_ranks(const models::ModelSpec& spec) {
  layers::AdapterRanks ranks;
  for (const models::DeclaredTensor& tensor : models::declared_tensors(spec)) {
    const bool is_product = tensor.may_be_in_blocks && tensor.shape.num_dims() == 2 &&
                            tensor.name.find("layers.") != std::string::npos;
    if (is_product) ranks.emplace(tensor.name, 3 + static_cast<int64_t>(ranks.size()) % 3);
  }
  return ranks;
}

std::unique_ptr<layers::Adapter> toy_adapter(const models::ModelSpec& spec,
                                             const parameters::ParameterSet& set,
                                             device::Device& device, uint64_t seed) {
  const layers::AdapterRanks ranks = toy_adapter_ranks(spec);
  auto adapter = std::make_unique<layers::Adapter>(set, device, ranks);
  for (const parameters::Parameter& parameter : set.all()) {
    const auto found = adapter->factors().find(parameter.name());
    if (found == adapter->factors().end()) continue;
    const int64_t rank = ranks.at(parameter.name()).rank;
    const Shape a{parameter.shape()[1], rank}, b{rank, parameter.shape()[0]};
    Shard part = parameter.declaration().shard;
    const bool cuts_inputs = part.dim == 1;
    part.dim = 1 - part.dim;
    fill_factor(parameter.name() + ".a", a, cuts_inputs ? part : Shard::whole(a), seed, device,
                found->second.a_IR);
    fill_factor(parameter.name() + ".b", b, cuts_inputs ? Shard::whole(b) : part, seed, device,
                found->second.b_PO);
  }
  return adapter;
}

}  // namespace megalith::testing
