// SPDX-License-Identifier: Apache-2.0
#include "testing/toy_adapter.h"

#include <algorithm>

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

std::shared_ptr<const low_rank::FactoredProducts> toy_factors(const models::ModelSpec& spec,
                                                              double dropout) {
  auto made = std::make_shared<low_rank::FactoredProducts>();
  made->scale = 1.5;
  made->dropout = dropout;
  const layers::AttentionSpec& attention = spec.layers.front().attention;
  const int64_t queries = attention.query_width() / attention.kv_heads;
  const int64_t group = queries + 2 * attention.head_dim;
  for (const auto& [weight, unused] : toy_adapter_ranks(spec)) {
    const Shape shape = [&, name = weight] {
      for (const models::DeclaredTensor& tensor : models::declared_tensors(spec))
        if (tensor.name == name) return tensor.shape;
      return Shape{};
    }();
    low_rank::ProductRanks ranks{{}, 3};
    for (int64_t output = 0; output < shape[0]; ++output) {
      Range own{0, 3};
      if (weight.ends_with("gate_up.weight")) own = {output % 2 * 3, output % 2 * 3 + 3};
      if (weight.ends_with("attention.qkv.weight")) {
        const int64_t place = output % group;
        const bool is_key = place >= queries && place < queries + attention.head_dim;
        own = place < queries ? Range{0, 3} : is_key ? Range{} : Range{3, 6};
      }
      ranks.rank = std::max(ranks.rank, own.end);
      ranks.by_output.push_back(own);
    }
    made->products.emplace(weight, std::move(ranks));
  }
  return made;
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
