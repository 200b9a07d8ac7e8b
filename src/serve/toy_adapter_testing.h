// SPDX-License-Identifier: Apache-2.0
// Tests only: adapters of the toy model.
#pragma once

#include <atomic>
#include <memory>

#include "serve/adapters.h"
#include "serve/toy_loop_testing.h"
#include "testing/toy_adapter.h"

namespace megalith::serve {

/// The rows of those adapters, 4 and on, whose virtual tokens stand inside texts.
inline int64_t toy_rows_in_text(uint64_t seed) {
  if (seed < 4) return 0;
  return seed == 7 ? 2 : testing::kToyVirtualTokens;
}

/// The second is of virtual tokens that stand before texts.
inline std::unique_ptr<layers::Adapter> toy_adapter_of(uint64_t seed,
                                                       const parameters::ParameterSet& set,
                                                       device::Device& device) {
  if (seed == 2) return testing::toy_prompt_adapter(set, device, seed);
  const int64_t rows = toy_rows_in_text(seed);
  return rows > 0 ? testing::toy_prompt_adapter(set, device, seed, true, rows)
                  : testing::toy_adapter(toy_spec(), set, device, seed);
}

/// `alive` counts the adapters that ranks have.
inline PlaceAdapter toy_place(uint64_t seed, std::atomic<int>* alive = nullptr) {
  return [=](engine::ShardedModel& model) -> std::shared_ptr<const layers::Adapter> {
    auto adapter = toy_adapter_of(seed, model.parameters(), model.device());
    if (alive == nullptr) return adapter;
    ++*alive;
    return {adapter.release(), [alive](const layers::Adapter* gone) {
              delete gone;
              --*alive;
            }};
  };
}

}  // namespace megalith::serve
