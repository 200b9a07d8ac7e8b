// SPDX-License-Identifier: Apache-2.0
#include "search/sensitivity.h"

#include <fmt/format.h>

#include "costs/step_time.h"

namespace megalith::search {
namespace {

constexpr double kMore = 1.1;

}  // namespace

std::vector<Sensitivity> sensitivities_of(const engine::Settings& settings,
                                          const clusters::Cluster& cluster) {
  std::vector<Sensitivity> all;
  const auto with = [&](std::string change, const clusters::Cluster& changed) {
    all.push_back(
        {std::move(change), costs::StepTimes(settings, changed).simulated(settings).seconds});
  };
  {
    clusters::Cluster more = cluster;
    for (clusters::ProductRate& rate : more.device.products) rate.peak *= kMore;
    for (clusters::KernelRate& rate : more.device.kernels) rate.flops *= kMore;
    const double peak = more.known(costs::product_type(settings)).peak;
    with(fmt::format("10 % faster {}: {:.4g} TFLOP/s at most",
                     more.device.kernels.empty() ? "products" : "operations of all kernels",
                     peak / 1e12),
         more);
  }
  {
    clusters::Cluster more = cluster;
    more.device.bandwidth *= kMore;
    for (clusters::KernelRate& rate : more.device.kernels) rate.bandwidth *= kMore;
    with(fmt::format("10 % more bandwidth of memory: {:.4g} GB/s", more.device.bandwidth / 1e9),
         more);
  }
  for (size_t i = 0; i < cluster.links.size(); ++i) {
    clusters::Cluster more = cluster;
    more.links[i].bandwidth *= kMore;
    with(fmt::format("10 % more bandwidth of {}: {:.4g} GB/s a way", more.links[i].name,
                     more.links[i].bandwidth / 1e9),
         more);
  }
  {
    clusters::Cluster none = cluster;
    none.device.launch_seconds = 0;
    for (clusters::KernelRate& rate : none.device.kernels) rate.call_seconds = 0;
    with("launches that take no time", none);
  }
  return all;
}

}  // namespace megalith::search
