// SPDX-License-Identifier: Apache-2.0
#include "trials/machine_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "device/target.h"
#include "trials/other_load.h"

namespace megalith::trials {
namespace {

/// Median rate of the kernels of norms, in bytes, over that of memory.
double stream_share(const MachineFigures& figures) {
  std::vector<double> rates;
  for (const FittedRate& kernel : figures.kernels) {
    if (kernel.rate.name.find("norm") != std::string::npos && kernel.rate.bandwidth > 0)
      rates.push_back(kernel.rate.bandwidth);
  }
  if (rates.empty()) return 1;
  std::ranges::sort(rates);
  return std::clamp(rates[rates.size() / 2] / figures.rates.bandwidth, 0.01, 1.0);
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string rates_text(const std::vector<FittedRate>& rates) {
  std::string text;
  for (const FittedRate& kernel : rates) {
    const clusters::KernelRate& rate = kernel.rate;
    text += fmt::format(
        "    - {{name: {}, type: {}, call_seconds: {:.4g}, flops: {:.5g}, bandwidth: {:.5g}{}}}  # "
        "{}, {:.0f} %\n",
        rate.name, rate.type, rate.call_seconds, rate.flops, rate.bandwidth,
        rate.most_intensity > 0 ? fmt::format(", most_intensity: {:.4g}", rate.most_intensity) : "",
        kernel.samples, 100 * kernel.median_error);
  }
  return text;
}

std::string device_text(const MachineFigures& f) {
  std::string text = fmt::format(
      "device:                     # a rank: {} of the {} that this machine has\n"
      "  name: {}\n"
      "  cores: {}\n"
      "  memory: {:<18} # of this machine, over {} ranks\n"
      "  reserved: 0\n"
      "  bandwidth: {:<15.5g} # read by a rank while {} read: the fastest pass over 256 MiB\n"
      "  bandwidth_share: {:<9.3g} # median rate of kernels of norms over that\n"
      "  launch_seconds: {:<10.3g} # between a kernel and the next: median of the models below\n"
      "  products:                 # peak: the fastest of well-shaped products while {} ranks "
      "multiply; share and depth: fitted to\n"
      "                            # [512, K] by [K, 512] of K from 32 to 2048, {:.1f} % off "
      "(median)\n",
      f.threads == 1 ? "a core" : fmt::format("{} cores", f.threads), available_cores(),
      quoted(device::cpu_name()), f.threads, device::memory_bytes() / f.ranks, f.ranks,
      f.rates.bandwidth, f.at_once, stream_share(f), f.gap_seconds, f.at_once,
      100 * f.rates.product_error);
  for (const clusters::ProductRate& rate : f.rates.products)
    text += fmt::format("    - {{type: {}, peak: {:.5g}, share: {:.4g}, depth: {:.4g}}}\n",
                        rate.type, rate.peak, rate.share.value(), rate.depth);
  text +=
      "  kernels:                  # fitted to steps of small models, each place's fastest; behind "
      "each: places, and how\n"
      "                            # far the fit is off (median)\n";
  text += rates_text(f.kernels);
  text +=
      "  serving:                  # the same of passes that read prompts and write text, of "
      "models "
      "whose weights are more than\n"
      "                            # caches hold\n";
  text += rates_text(f.serving);
  return text;
}

}  // namespace

SharedCores share_cores(int ranks, int cores, int threads) {
  if (threads > cores)
    throw UserError("--threads {}: there are {} cores; give at most as many", threads, cores);
  SharedCores shared;
  const int at_most = threads > 0 ? cores / threads : cores;
  shared.ranks = ranks > 0 ? ranks : at_most;
  shared.at_once = std::min(shared.ranks, at_most);
  shared.threads = threads > 0 ? threads : cores / shared.at_once;
  if (threads == 0 && cores % shared.at_once != 0) {
    throw UserError(
        "--ranks {}: {} cores cannot be shared equally; give a divisor of {}, or more ranks than "
        "cores",
        ranks, cores, cores);
  }
  return shared;
}

MachineFigures measure_machine(const MachineOptions& options) {
  MachineFigures f;
  static_cast<SharedCores&>(f) = share_cores(options.ranks, available_cores(), options.threads);
  const OtherLoad load;
  const double begin = monotonic_seconds();
  const auto say = [&](const std::string& line) {
    if (options.progress) options.progress(line);
  };
  say(fmt::format("products and memory, {} ranks of {} threads at once", f.at_once, f.threads));
  f.rates = measure_rates(f.at_once, f.threads, options.samples);
  KernelSamples samples = sample_kernels({f.at_once, f.threads, options.samples, options.progress});
  f.gap_seconds = samples.gap_seconds;
  f.kernels = fit_rates(std::move(samples.kernels));
  f.serving =
      fit_serving_rates(sample_passes({f.at_once, f.threads, options.samples, options.progress}));
  for (const int joined : {f.at_once, f.ranks}) {
    if (f.ranks % joined != 0) continue;  // links of a file lie within each other
    if (joined < 2 || (!f.links.empty() && f.links.back().first == joined)) continue;
    say(fmt::format("transfers between {} ranks", joined));
    f.links.emplace_back(joined, measure_link(joined, 8 * options.samples));
  }
  f.other_load = load.share();
  f.seconds = monotonic_seconds() - begin;
  return f;
}

std::string machine_yaml(const MachineFigures& f, const std::string& what) {
  std::string text = fmt::format(
      "# {}: what ranks take that are threads here, each with {}.\n"
      "# Measured in {:.0f} s, while other programs took {:.0f} % of the cores' time.\n"
      "name: {}\n",
      what, f.threads == 1 ? "a core" : fmt::format("{} cores", f.threads), f.seconds,
      100 * f.other_load, quoted(fmt::format("this machine, {} ranks", f.ranks)));
  text += device_text(f);
  text += fmt::format("node:\n  devices: {}\n  count: 1\n", f.ranks);
  if (f.at_once < f.ranks)
    text += fmt::format("  at_once: {:<17} # cores: more ranks take turns\n", f.at_once);
  if (!f.links.empty()) {
    text +=
        "links:                      # gathers and exchanges of 4 KiB to 4 MiB, the fastest of "
        "several; how far the fit is off\n";
  }
  double inner = 0;
  for (const auto& [joined, link] : f.links) {
    // A file's links go from the inside out, none faster than the one before.
    const double bandwidth = inner > 0 ? std::min(inner, link.bandwidth) : link.bandwidth;
    inner = bandwidth;
    text += fmt::format(
        "  - {{name: {} rank threads, devices: {}, bandwidth: {:.5g}, latency_seconds: {:.3g}}}  # "
        "{:.0f} %\n",
        joined, joined == f.ranks ? 0 : joined, bandwidth, link.latency_seconds,
        100 * link.median_error);
  }
  text +=
      "execution:                  # of times without kernels: sums on the wire are of f32, and a "
      "core that copies does not compute\n"
      "  activation_bytes: 4\n"
      "  gradient_bytes: 4\n"
      "  optimizer_bytes: 36       # AdamW 28, norm 4, zeros 4\n";
  return text;
}

}  // namespace megalith::trials
