// SPDX-License-Identifier: Apache-2.0
// What times rest on, for people.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "costs/step_time.h"

namespace megalith::costs {

using engine::Settings;

namespace {

std::string link_text(const clusters::Cluster& c, const clusters::Link& link) {
  return fmt::format("{} joins {} devices: {:.4g} GB/s a way each, {:.3g} of it, {:.3g} us a step",
                     link.name, link.devices == 0 ? c.devices() : link.devices,
                     link.bandwidth / link.oversubscription / 1e9, link.share,
                     1e6 * link.latency_seconds);
}

/// Of a machine whose kernels were measured.
std::vector<std::string> measured_assumptions(const clusters::Cluster& c, const Settings& s) {
  std::vector<std::string> lines;
  const auto rates =
      std::ranges::count(c.device.kernels, product_type(s), &clusters::KernelRate::type);
  lines.push_back(fmt::format(
      "the kernels of a traced step, by {} measured rates of {}; {:.3g} us between two of them",
      rates, product_type(s), 1e6 * c.device.launch_seconds));
  const std::set<std::string> missing = TracedParts(s, c).not_measured();
  if (!missing.empty())
    lines.push_back(
        fmt::format("not measured, so at the rate of products or of memory, {:.4g} GB/s: {}",
                    c.device.bandwidth * c.device.bandwidth_share / 1e9, fmt::join(missing, ", ")));
  for (const clusters::Link& link : c.links) lines.push_back(link_text(c, link));
  if (c.node.at_once > 0)
    lines.push_back(
        fmt::format("of more than {} ranks each has a part of the cores' time", c.node.at_once));
  lines.push_back("nothing is hidden by computing: a core that copies does not compute");
  return lines;
}

}  // namespace

std::vector<std::string> assumptions(const clusters::Cluster& c, const Settings& s) {
  if (!c.device.kernels.empty()) return measured_assumptions(c, s);
  std::vector<std::string> lines;
  const auto product = [&](clusters::ProductType type) {
    const clusters::ProductRate& rate = c.known(type);
    lines.push_back(fmt::format(
        "products in {}: {:.4g} TFLOP/s at most, {:.3g} of it in deep ones, half of that at depth "
        "{:.3g}",
        type, rate.peak / 1e12, *rate.share, rate.depth));
  };
  product(product_type(s));
  if (s.fp8) product(clusters::ProductType::fp8);
  lines.push_back(fmt::format("memory: {:.4g} GB/s, {:.3g} of it; a launch takes {:.3g} us",
                              c.device.bandwidth / 1e9, c.device.bandwidth_share,
                              1e6 * c.device.launch_seconds));
  for (const clusters::Link& link : c.links) lines.push_back(link_text(c, link));
  const clusters::ExecutionSection& e = c.execution;
  lines.push_back(fmt::format(
      "hidden by computing: {:.2g} of transfers between tensor ranks in forward, {:.2g} in "
      "backward; {:.2g} between stages; gradients beside {:.2g} of the last backward",
      e.forward_overlap, e.backward_overlap, e.pipeline_overlap, e.gradient_overlap));
  lines.push_back(
      fmt::format("the update reads and writes {:.3g} bytes per parameter; sums on the "
                  "wire have {} bytes of activations and {} of gradients",
                  e.optimizer_bytes, e.activation_bytes, e.gradient_bytes));
  lines.push_back("ranks fill the links from the inside: tensor, then data, then pipeline");
  return lines;
}

}  // namespace megalith::costs
