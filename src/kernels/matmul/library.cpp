// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/library.h"

#include <fmt/format.h>

#include <dnnl.hpp>

namespace megalith::kernels {

std::string library_version() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

bool library_multiplies(DType dtype) {
  // Its enumerators are sets of bits, a larger instruction set holds those of a smaller one.
  constexpr auto kNeeded = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  const auto has = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return dtype == DType::f32 || (dtype == DType::bf16 && (has & kNeeded) == kNeeded);
}

}  // namespace megalith::kernels
