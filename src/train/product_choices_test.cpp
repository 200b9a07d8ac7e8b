// SPDX-License-Identifier: Apache-2.0
#include "train/product_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "kernels/matmul/product_class.h"

namespace megalith::train {
namespace {

device::Target target(uint32_t products) {
  return {.isa = device::Isa::avx512, .num_threads = 2, .library_products = products};
}

TEST(ProductChoices, ComeBackByName) {
  for (const uint32_t products :
       {0u, 1u, 0b100000000010u, (1u << kernels::kNumProductClasses) - 1}) {
    const auto json = nlohmann::json::parse(choices_json(target(products)).dump());
    const ProductChoices back = choices_from(json);
    EXPECT_EQ(back.products, products);
    EXPECT_EQ(back.isa, "avx512");
    EXPECT_EQ(back.library, kernels::library_version());
  }
  EXPECT_EQ(choices_json(target(1))["library_products"][0], name_of(kernels::product_class(0)));
}

TEST(ProductChoices, WhatIsNoneIsRefused) {
  for (const char* text :
       {"{}", "[]", R"({"isa": "a", "library": "b", "library_products": 5})",
        R"({"isa": 1, "library": "b", "library_products": []})",
        R"({"isa": "a", "library": "b", "library_products": ["f64 sideways"]})"}) {
    EXPECT_THROW(choices_from(nlohmann::json::parse(text)), IntegrityError) << text;
  }
}

}  // namespace
}  // namespace megalith::train
