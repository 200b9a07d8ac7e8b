// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/product_class.h"

#include <fmt/format.h>

#include "base/check.h"

namespace megalith::kernels {

ProductClass product_class(int index) {
  MEGA_CHECK(index >= 0 && index < kNumProductClasses, "class {}", index);
  return {static_cast<ProductKind>(index / 4), (index & 2) != 0, (index & 1) != 0};
}

int index_of(const ProductClass& c) {
  return 4 * static_cast<int>(c.kind) + 2 * int{c.is_bf16} + int{c.is_large};
}

std::string name_of(const ProductClass& c) {
  constexpr std::array<const char*, 3> kinds{"forward", "backward_input", "backward_weight"};
  return fmt::format("{} {}, {}", c.is_bf16 ? "bf16" : "f32", kinds[static_cast<size_t>(c.kind)],
                     c.is_large ? "large" : "small");
}

uint32_t library_products(const ProductRates& rates) {
  uint32_t bits = 0;
  for (size_t i = 0; i < rates.size(); ++i) {
    if (rates[i].library > 1.05 * rates[i].exact) bits |= uint32_t{1} << i;
  }
  return bits;
}

bool takes_library(const device::Target& target, const ProductClass& c) {
  if (target.library_products == device::kProductsNotMeasured)
    return c.is_bf16 && target.isa == device::Isa::avx512_bf16;
  return ((target.library_products >> index_of(c)) & 1u) != 0;
}

}  // namespace megalith::kernels
