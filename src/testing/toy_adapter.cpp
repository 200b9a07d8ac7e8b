// SPDX-License-Identifier: Apache-2.0
#include "testing/toy_adapter.h"

#include "kernels/elementwise/pointwise.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "low_rank/adapter_scale.h"
#include "models/foreign_map.h"

namespace megalith::testing {
namespace {

bool is_product(const models::DeclaredTensor& tensor) {
  return tensor.may_be_in_blocks && tensor.shape.num_dims() == 2 &&
         tensor.name.find("layers.") != std::string::npos;
}

/// Where an output of the fused projection lies in its group: queries, keys, then values.
enum class Place : uint8_t { query, key, value };
Place place_of(const models::ModelSpec& spec, int64_t output) {
  const layers::AttentionSpec& attention = spec.layers.front().attention;
  const int64_t queries = attention.query_width() / attention.kv_heads;
  const int64_t place = output % (queries + 2 * attention.head_dim);
  if (place < queries) return Place::query;
  return place < queries + attention.head_dim ? Place::key : Place::value;
}
bool is_fused_projection(std::string_view weight) {
  return weight.ends_with("attention.qkv.weight");
}

void fill_factor(const std::string& name, const Shape& shape, const Shard& shard, uint64_t seed,
                 device::Device& device, const View& to) {
  const parameters::Parameter factor({name, shape, shard, {parameters::Init::Kind::normal, 0.3}});
  std::vector<float> values(static_cast<size_t>(factor.local_elements()));
  parameters::initial_value(factor, seed, DType::f32, values.data());
  device.wait(device.copy_to_device(to, values.data()));
}

}  // namespace

layers::AdapterRanks toy_adapter_ranks(const models::ModelSpec& spec, bool magnitudes) {
  layers::AdapterRanks ranks;
  for (const models::DeclaredTensor& tensor : models::declared_tensors(spec)) {
    const int64_t rank = 3 + static_cast<int64_t>(ranks.size()) % 3;
    if (is_product(tensor)) ranks.emplace(tensor.name, layers::AdapterRank(rank, rank, magnitudes));
  }
  return ranks;
}

layers::AdapterRanks toy_vector_ranks(const models::ModelSpec& spec) {
  using Vector = layers::AdapterRank::Vector;
  layers::AdapterRanks ranks;
  for (const models::DeclaredTensor& tensor : models::declared_tensors(spec))
    if (is_product(tensor))
      ranks.emplace(tensor.name, tensor.is_cut_by_columns ? Vector::of_inputs : Vector::of_outputs);
  return ranks;
}

std::shared_ptr<const ia3::MultipliedProducts> toy_vectors(const models::ModelSpec& spec) {
  auto made = std::make_shared<ia3::MultipliedProducts>();
  for (const models::DeclaredTensor& tensor : models::declared_tensors(spec)) {
    if (!is_product(tensor)) continue;
    ia3::MultipliedProduct product{.of_inputs = tensor.is_cut_by_columns};
    const bool in_turns = tensor.name.ends_with("gate_up.weight");
    for (int64_t output = 0; output < tensor.shape[0]; ++output) {
      if (in_turns) product.outputs.push_back(output % 2 == 1);
      if (is_fused_projection(tensor.name))
        product.outputs.push_back(place_of(spec, output) != Place::query);
    }
    made->emplace(tensor.name, std::move(product));
  }
  return made;
}

std::shared_ptr<const low_rank::FactoredProducts> toy_factors(const models::ModelSpec& spec,
                                                              double dropout) {
  auto made = std::make_shared<low_rank::FactoredProducts>();
  made->scale = 1.5;
  made->dropout = dropout;
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
      if (is_fused_projection(weight)) {
        const Place place = place_of(spec, output);
        own = place == Place::query ? Range{0, 3} : place == Place::key ? Range{} : Range{3, 6};
      }
      ranks.rank = std::max(ranks.rank, own.end);
      ranks.by_output.push_back(own);
    }
    made->products.emplace(weight, std::move(ranks));
  }
  return made;
}

namespace {

std::unique_ptr<layers::Adapter> filled(const layers::AdapterRanks& ranks,
                                        const parameters::ParameterSet& set, device::Device& device,
                                        uint64_t seed) {
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

std::vector<float> on_host(device::Device& device, ConstView view) {
  std::vector<float> host(static_cast<size_t>(view.num_elements()));
  device.wait(device.copy_to_host(host.data(), view));
  return host;
}

}  // namespace

std::unique_ptr<layers::Adapter> toy_adapter(const models::ModelSpec& spec,
                                             const parameters::ParameterSet& set,
                                             device::Device& device, uint64_t seed) {
  return filled(toy_adapter_ranks(spec), set, device, seed);
}

std::unique_ptr<layers::Adapter> toy_scaled_adapter(const models::ModelSpec& spec,
                                                    const parameters::ParameterSet& set,
                                                    kernels::Exec& exec, comm::Communicator& tensor,
                                                    uint64_t seed) {
  constexpr float kMost = 0.6F;  // others have none
  auto adapter = filled(toy_adapter_ranks(spec, true), set, exec.device, seed);
  for (const parameters::Parameter& weight : set.all()) {
    const layers::Adapter::Factors* const factors = adapter->find(weight.name());
    if (factors == nullptr) continue;
    const Shape outputs{weight.shape()[0]};
    Shard part = weight.declaration().shard;
    if (part.dim == 1) part = Shard::whole(outputs);
    const parameters::Parameter drawn(
        {weight.name() + ".m", outputs, part, {parameters::Init::Kind::normal, 0.5}});
    std::vector<float> values(static_cast<size_t>(drawn.local_elements()));
    parameters::initial_value(drawn, seed, DType::f32, values.data());
    std::vector<std::optional<float>> m_O;
    for (const float m : values) m_O.push_back(m > kMost ? std::nullopt : std::optional(m));
    const std::vector<float> a_IR = on_host(exec.device, factors->a_IR);
    const int64_t inputs = factors->a_IR.view.size(0), rank = factors->a_IR.view.size(1);
    std::vector<float> a_RI(a_IR.size());
    for (int64_t i = 0; i < inputs; ++i)
      for (int64_t r = 0; r < rank; ++r)
        a_RI[static_cast<size_t>(r * inputs + i)] = a_IR[static_cast<size_t>(i * rank + r)];
    low_rank::set_scale(exec, tensor, weight,
                        {.a_RI = std::move(a_RI),
                         .b_RO = on_host(exec.device, factors->b_PO),
                         .m_O = std::move(m_O)},
                        *adapter);
  }
  return adapter;
}

std::unique_ptr<layers::Adapter> toy_vector_adapter(const models::ModelSpec& spec,
                                                    const parameters::ParameterSet& set,
                                                    device::Device& device, uint64_t seed) {
  auto adapter = std::make_unique<layers::Adapter>(set, device, toy_vector_ranks(spec));
  for (const parameters::Parameter& parameter : set.all()) {
    const auto found = adapter->factors().find(parameter.name());
    if (found == adapter->factors().end()) continue;
    Shard part = parameter.declaration().shard;
    const bool of_inputs = part.dim == 1;
    part.dim = 0;
    fill_factor(parameter.name() + ".l", Shape{parameter.shape()[of_inputs ? 1 : 0]}, part, seed,
                device, of_inputs ? found->second.input_I : found->second.output_O);
  }
  return adapter;
}

layers::AdapterRanks toy_bottleneck_ranks(const models::ModelSpec& spec) {
  constexpr int64_t kSize = 5;
  layers::AdapterRanks ranks;
  for (const models::DeclaredTensor& tensor : models::declared_tensors(spec))
    if (is_product(tensor) && tensor.is_cut_by_columns)
      ranks.emplace(tensor.name, layers::AdapterRank::of_bottleneck(kSize));
  return ranks;
}

std::unique_ptr<layers::Adapter> toy_bottleneck_adapter(const models::ModelSpec& spec,
                                                        const parameters::ParameterSet& set,
                                                        device::Device& device, uint64_t seed) {
  auto adapter = std::make_unique<layers::Adapter>(set, device, toy_bottleneck_ranks(spec));
  for (auto& [name, factors] : adapter->factors()) {
    const std::pair<const char*, View> parts[] = {{".down", factors.down_RH},
                                                  {".down_bias", factors.down_bias_R},
                                                  {".up", factors.up_HR},
                                                  {".up_bias", factors.up_bias_H}};
    for (const auto& [end, view] : parts)
      fill_factor(name + end, view.shape(), Shard::whole(view.shape()), seed, device, view);
  }
  return adapter;
}

layers::AdapterRanks toy_prompt_ranks(bool in_text, int64_t count) {
  return {{std::string(layers::kTokenTableName),
           layers::AdapterRank::of_virtual_tokens(count, in_text)}};
}

std::unique_ptr<layers::Adapter> toy_prompt_adapter(const parameters::ParameterSet& set,
                                                    device::Device& device, uint64_t seed,
                                                    bool in_text, int64_t count) {
  auto adapter = std::make_unique<layers::Adapter>(set, device, toy_prompt_ranks(in_text, count));
  for (auto& [name, factors] : adapter->factors()) {
    const View rows = factors.virtual_PE;
    fill_factor(name + ".rows", rows.shape(), Shard::whole(rows.shape()), seed, device, rows);
  }
  return adapter;
}

std::unique_ptr<layers::Adapter> prompt_of_tokens(const models::ModelSpec& spec,
                                                  parameters::ParameterSet& set,
                                                  device::Device& device,
                                                  std::span<const int32_t> ids, bool in_text) {
  const std::string name(layers::kTokenTableName);
  auto adapter = std::make_unique<layers::Adapter>(
      set, device,
      layers::AdapterRanks{
          {name, layers::AdapterRank::of_virtual_tokens(std::ssize(ids), in_text)}});
  const ConstView table = set.find(name)->compute();
  const View rows = adapter->factors().at(name).virtual_PE;
  for (size_t i = 0; i < ids.size(); ++i)
    device.copy(rows.rows(static_cast<int64_t>(i), 1), table.rows(ids[i], 1));
  kernels::Exec exec(device);
  kernels::scale(exec, rows, static_cast<float>(spec.embedding.scale));
  return adapter;
}

}  // namespace megalith::testing
