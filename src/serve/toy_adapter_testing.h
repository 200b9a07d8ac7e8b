// SPDX-License-Identifier: Apache-2.0
// Tests only: adapters of the toy model.
#pragma once

#include <atomic>
#include <memory>

#include "serve/adapters.h"
#include "serve/toy_loop_testing.h"
#include "testing/toy_adapter.h"

namespace megalith::serve {

/// `alive` counts the adapters that ranks have.
inline PlaceAdapter toy_place(uint64_t seed, std::atomic<int>* alive = nullptr) {
  return [=](engine::ShardedModel& model) -> std::shared_ptr<const layers::Adapter> {
    auto adapter = testing::toy_adapter(toy_spec(), model.parameters(), model.device(), seed);
    if (alive == nullptr) return adapter;
    ++*alive;
    return {adapter.release(), [alive](const layers::Adapter* gone) {
              delete gone;
              --*alive;
            }};
  };
}

}  // namespace megalith::serve
