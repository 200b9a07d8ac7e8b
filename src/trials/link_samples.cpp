// SPDX-License-Identifier: Apache-2.0
#include "trials/link_samples.h"

#include <algorithm>
#include <limits>

#include "base/clock.h"
#include "kernels/elementwise/pointwise.h"
#include "trials/placed_ranks.h"
#include "trials/rate_fit.h"

namespace megalith::trials {

FittedLink measure_link(int ranks, int samples) {
  constexpr int64_t kSizes[] = {1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22};
  constexpr int kCalls = 8;  // of a sample
  std::vector<KernelSample> fastest;
  on_placed_ranks(ranks, 1, [&](comm::Communicator& world, device::Device& device) {
    kernels::Exec exec(device);
    for (const int64_t bytes : kSizes) {
      const int64_t elements = bytes / 4 / ranks * ranks;
      const device::Tensor x = exec.workspace.tensor(DType::f32, Shape{elements});
      const device::Tensor y = exec.workspace.tensor(DType::f32, Shape{elements});
      kernels::fill(exec, x, 1);
      kernels::fill(exec, y, 1);
      const int64_t part = elements / ranks;
      const auto sent = static_cast<double>(4 * part * (ranks - 1));
      double least = std::numeric_limits<double>::infinity();
      for (int sample = 0; sample <= samples; ++sample) {
        world.barrier("link");
        const double begin = monotonic_seconds();
        for (int call = 0; call < kCalls; ++call) {
          world.wait(call % 2 == 0 ? world.start_all_gather(
                                         ConstView(x).rows(world.rank() * part, part), y, "link")
                                   : world.start_all_to_all(x, y, "link"));
        }
        const double seconds = monotonic_seconds() - begin;
        if (sample > 0) least = std::min(least, seconds / kCalls);
      }
      if (world.rank() == 0)
        fastest.push_back({"link", clusters::ProductType::f32, 1, 0, sent, least});
    }
  });
  const FittedRate fitted = fit_rate(fastest);
  return {fitted.rate.call_seconds, fitted.rate.bandwidth, fitted.median_error};
}

}  // namespace megalith::trials
