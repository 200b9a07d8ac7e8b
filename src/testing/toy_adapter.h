// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters of random numbers, the same under every layout.
#pragma once

#include "layers/adapter.h"
#include "low_rank/factors.h"
#include "spec/model_spec.h"

namespace megalith::testing {

/// Every product of the model's layers, the ranks 3, 4 and 5 in turn.
layers::AdapterRanks toy_adapter_ranks(const models::ModelSpec& spec);

/// Factors that train beside every product of the model's layers, as several modules each: queries,
/// keys and values, of which keys have none, and gates and ups in turns; the others whole.
std::shared_ptr<const low_rank::FactoredProducts> toy_factors(const models::ModelSpec& spec,
                                                              double dropout = 0);

/// With those of `set`'s products that are here. The values are a function of (seed, weight,
/// logical element), so large that every logit moves.
std::unique_ptr<layers::Adapter> toy_adapter(const models::ModelSpec& spec,
                                             const parameters::ParameterSet& set,
                                             device::Device& device, uint64_t seed);

}  // namespace megalith::testing
