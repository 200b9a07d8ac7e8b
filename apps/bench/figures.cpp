// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "apps/machine.h"
#include "kernels/matmul/ceiling.h"
#include "kernels/matmul/library.h"

namespace megalith::apps {

void report(const std::string& name, std::vector<double> samples, const std::string& unit,
            bool higher_is_better, int threads, bool json) {
  std::vector<double> sorted = samples;
  std::ranges::sort(sorted);
  const double median = sorted[sorted.size() / 2];
  if (!json) {
    fmt::print("{:<44} {:>12.2f} {}  (best {:.2f}, {} samples)\n", name, median, unit,
               higher_is_better ? sorted.back() : sorted.front(), samples.size());
    return;
  }
  print_json({{"name", name},
              {"value", median},
              {"unit", unit},
              {"higher_is_better", higher_is_better},
              {"samples", samples},
              {"machine", machine_json(device::cpu_target(threads))}});
}

BestGemm::BestGemm(int threads) : device_(device::make_device(device::cpu_target(threads))) {
  double best = 0;
  for (const Kind& kind : kKinds) {
    const double rate = flops_per_second(kind);
    if (rate <= best) continue;
    best = rate;
    kind_ = kind;
  }
}

double BestGemm::flops_per_second(const Kind& kind) {
  const bool is_library = kind.entry == std::string_view("onednn");
  if (is_library && !kernels::library_multiplies(kind.dtype)) return 0;
  kernels::Exec exec(*device_, kernels::Numerics::fast);
  exec.only = kind.entry;
  return kernels::gemm_ceiling(exec, kind.dtype, 0.3);
}

std::map<std::string, std::vector<double>> BestGemm::ceilings(int count) {
  std::map<std::string, std::vector<double>> all;
  for (int i = 0; i < count; ++i) {
    for (const Kind& kind : kKinds)
      all[fmt::format("{}.{}", kind.name, kind.dtype)].push_back(1e-9 * flops_per_second(kind));
  }
  return all;
}

}  // namespace megalith::apps
