// SPDX-License-Identifier: Apache-2.0
#include "apps/bench_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "apps/cpu_target.h"
#include "apps/machine.h"
#include "kernels/matmul/ceiling.h"

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
              {"machine", machine_json({device::DeviceKind::cpu, device::detect_isa(), threads})}});
}

BestGemm::BestGemm(int threads)
    : device_(device::make_cpu_device(cpu_target(threads, kernels::Numerics::fast))) {
  double best = 0;
  for (const kernels::Numerics numerics : {kernels::Numerics::exact, kernels::Numerics::fast}) {
    kernels::Exec exec(*device_, numerics);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const double rate = kernels::gemm_ceiling(exec, dtype, 0.3);
      if (rate <= best) continue;
      best = rate;
      numerics_ = numerics;
      dtype_ = dtype;
    }
  }
}

double BestGemm::flops_per_second() {
  kernels::Exec exec(*device_, numerics_);
  return kernels::gemm_ceiling(exec, dtype_, 0.3);
}

}  // namespace megalith::apps
