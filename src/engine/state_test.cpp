// SPDX-License-Identifier: Apache-2.0
#include "engine/state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "comm/backends.h"
#include "testing/toy_model.h"

namespace megalith::engine {
namespace {

TEST(State, DataRanksShareTheWorkByBytes) {
  for (const int data : {2, 4}) {
    Settings settings = testing::toy_settings();
    settings.model.set_num_layers(8);
    settings.split = {4, 4};
    settings.layout = {.data = data};
    std::vector<int64_t> bytes;
    int64_t largest = 0, all = 0;
    for (int rank = 0; rank < data; ++rank) {
      const auto device = device::make_trace_device({});
      const auto world = comm::make_traced_communicator(*device, rank, data);
      const parallel::Mesh mesh(*world, settings.layout);
      Engine engine(settings, *device, mesh);
      bytes.push_back(state_bytes(engine));
      all = 0;
      for (const parameters::Parameter& parameter : engine.parameters().all()) {
        const int64_t one = parameter.local_elements() * bytes_of(settings.masters);
        largest = std::max(largest, one);
        all += 3 * one;
      }
    }
    EXPECT_EQ(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}), all);
    EXPECT_LE(std::ranges::max(bytes) - std::ranges::min(bytes), largest) << data;
  }
}

}  // namespace
}  // namespace megalith::engine
