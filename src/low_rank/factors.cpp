// SPDX-License-Identifier: Apache-2.0
#include "low_rank/factors.h"

#include "low_rank/factor_pair.h"
#include "low_rank/magnitudes.h"

namespace megalith::low_rank {
namespace {

constexpr std::string_view kFirst = ".lora_a", kSecond = ".lora_b", kMagnitudes = ".lora_m";

}  // namespace

bool is_factor(std::string_view parameter) {
  return parameter.ends_with(kFirst) || parameter.ends_with(kSecond) ||
         parameter.ends_with(kMagnitudes);
}
std::string first_factor(std::string_view weight) { return layers::name_beside(weight, kFirst); }
std::string second_factor(std::string_view weight) { return layers::name_beside(weight, kSecond); }
std::string magnitudes_of(std::string_view weight) {
  return layers::name_beside(weight, kMagnitudes);
}

layers::MakeFactors factors_of(std::shared_ptr<const FactoredProducts> products, DType dtype) {
  return
      [products = std::move(products), dtype](
          parameters::ParameterSet& set,
          const layers::FactoredProduct& product) -> std::shared_ptr<const layers::ProductFactors> {
        const auto found = products->products.find(product.weight.name());
        if (found == products->products.end()) return nullptr;
        if (products->has_magnitudes)
          return std::make_shared<ScaledFactors>(set, product, found->second, *products, dtype);
        return std::make_shared<FactorPair>(set, product, found->second, *products, dtype);
      };
}

}  // namespace megalith::low_rank
