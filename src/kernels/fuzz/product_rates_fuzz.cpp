// SPDX-License-Identifier: Apache-2.0
// The file in the user's cache that keeps measured rates. What is taken can be reckoned with, and
// is taken again when it is written anew.
#include <cmath>

#include "base/fuzz/fuzz_input.h"
#include "kernels/matmul/product_rates_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace megalith;
  const auto rates = kernels::rates_in(fuzz::text_of(data, size), "cpu");
  if (!rates) return 0;
  for (const kernels::ProductRate& rate : *rates) {
    MEGA_CHECK(rate.exact > 0 && rate.library >= 0 && std::isfinite(rate.library / rate.exact));
  }
  const auto again = kernels::rates_in(kernels::rates_text(*rates, "cpu"), "cpu");
  MEGA_CHECK(again.has_value());
  MEGA_CHECK_EQ(kernels::library_products(*again), kernels::library_products(*rates));
  return 0;
}
