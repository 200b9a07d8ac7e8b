// SPDX-License-Identifier: Apache-2.0
// Adapters of random numbers, of low rank, of learned vectors and of virtual tokens, the same under
// every layout.
#pragma once

#include "ia3/learned_vectors.h"
#include "layers/adapter.h"
#include "low_rank/factors.h"
#include "spec/model_spec.h"

namespace megalith::testing {

/// Every product of the model's layers, the ranks 3, 4 and 5 in turn.
layers::AdapterRanks toy_adapter_ranks(const models::ModelSpec& spec, bool magnitudes = false);

/// Factors that train beside every product of the model's layers, as several modules each: queries,
/// keys and values, of which keys have none, and gates and ups in turns; the others whole.
std::shared_ptr<const low_rank::FactoredProducts> toy_factors(const models::ModelSpec& spec,
                                                              double dropout = 0);

/// Vectors that train beside every product of the model's layers: of fused queries, keys and values
/// the latter two, of gates and ups the ups, the others whole.
std::shared_ptr<const ia3::MultipliedProducts> toy_vectors(const models::ModelSpec& spec);
/// Of every such product, whole.
layers::AdapterRanks toy_vector_ranks(const models::ModelSpec& spec);

/// With those of `set`'s products that are here. The values are a function of (seed, weight,
/// logical element), so large that every logit moves.
std::unique_ptr<layers::Adapter> toy_adapter(const models::ModelSpec& spec,
                                             const parameters::ParameterSet& set,
                                             device::Device& device, uint64_t seed);
/// The same with magnitudes, of most outputs: of weights that are loaded. Collective over `tensor`.
std::unique_ptr<layers::Adapter> toy_scaled_adapter(const models::ModelSpec& spec,
                                                    const parameters::ParameterSet& set,
                                                    kernels::Exec& exec, comm::Communicator& tensor,
                                                    uint64_t seed);
/// The same of toy_vector_ranks().
std::unique_ptr<layers::Adapter> toy_vector_adapter(const models::ModelSpec& spec,
                                                    const parameters::ParameterSet& set,
                                                    device::Device& device, uint64_t seed);

/// Bottlenecks behind every product that ends an attention or an MLP.
layers::AdapterRanks toy_bottleneck_ranks(const models::ModelSpec& spec);
std::unique_ptr<layers::Adapter> toy_bottleneck_adapter(const models::ModelSpec& spec,
                                                        const parameters::ParameterSet& set,
                                                        device::Device& device, uint64_t seed);

inline constexpr int64_t kToyVirtualTokens = 5;
/// `count` before texts, of random rows; `in_text`: which stand where a text has their ids.
layers::AdapterRanks toy_prompt_ranks(bool in_text = false, int64_t count = kToyVirtualTokens);
std::unique_ptr<layers::Adapter> toy_prompt_adapter(const parameters::ParameterSet& set,
                                                    device::Device& device, uint64_t seed,
                                                    bool in_text = false,
                                                    int64_t count = kToyVirtualTokens);
/// As many as `ids`, whose rows are those that the table of a whole model in f32 has for these
/// tokens; `in_text`: likewise.
std::unique_ptr<layers::Adapter> prompt_of_tokens(const models::ModelSpec& spec,
                                                  parameters::ParameterSet& set,
                                                  device::Device& device,
                                                  std::span<const int32_t> ids,
                                                  bool in_text = false);

}  // namespace megalith::testing
