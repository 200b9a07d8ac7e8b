// SPDX-License-Identifier: Apache-2.0
// megalith bench machine: this machine as a cluster file.
#include "trials/machine_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/bench/figures.h"
#include "apps/version.h"
#include "base/error.h"
#include "base/file.h"

namespace megalith::apps {
namespace {

void report_machine(const trials::MachineFigures& f, bool json) {
  const int threads = f.at_once * f.threads;
  for (const clusters::ProductRate& rate : f.rates.products) {
    report(fmt::format("machine.products.{}", rate.type), {1e-9 * rate.peak}, "GFLOP/s a rank",
           true, threads, json);
    report(fmt::format("machine.products.{}.depth", rate.type), {rate.depth}, "", false, threads,
           json);
  }
  report("machine.memory", {1e-9 * f.rates.bandwidth}, "GB/s a rank", true, threads, json);
  report("machine.between_kernels", {1e6 * f.gap_seconds}, "us", false, threads, json);
  for (const auto& [ranks, link] : f.links) {
    report(fmt::format("machine.link.{}_ranks", ranks), {1e-9 * link.bandwidth}, "GB/s a rank",
           true, threads, json);
    report(fmt::format("machine.link.{}_ranks.latency", ranks), {1e6 * link.latency_seconds}, "us",
           false, threads, json);
  }
  for (const auto& [name, rates] :
       {std::pair{"machine.kernels", &f.kernels}, std::pair{"machine.serving", &f.serving}}) {
    std::vector<double> errors;
    for (const trials::FittedRate& kernel : *rates) errors.push_back(100 * kernel.median_error);
    report(name, {static_cast<double>(rates->size())}, "fitted", true, threads, json);
    report(fmt::format("{}.error", name), errors, "%", false, threads, json);
  }
  report("machine.other_programs", {100 * f.other_load}, "% of the cores", false, threads, json);
}

}  // namespace

int bench_machine(const MachineOutput& output, const BenchOptions& o, bool json) {
  trials::MachineOptions options;
  options.ranks = output.ranks;
  options.threads = output.threads;
  options.samples = o.samples;
  if (!json) options.progress = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  // A path that cannot be written is said first.
  if (std::filesystem::is_directory(output.path))
    throw UserError("--output {} is a folder; name a file", output.path);
  const std::filesystem::path beside = temporary_beside(output.path);
  write_file_durable(beside, "");
  std::filesystem::remove(beside);
  const trials::MachineFigures figures = trials::measure_machine(options);
  const std::string yaml = trials::machine_yaml(
      figures, fmt::format("megalith bench machine, {}, {}", kVersion, iso_time(wall_seconds())));
  clusters::parse_cluster(yaml, output.path);
  write_file_durable(output.path, yaml);
  report_machine(figures, json);
  return 0;
}

}  // namespace megalith::apps
