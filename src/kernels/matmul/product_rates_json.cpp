// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/product_rates_json.h"

#include <nlohmann/json.hpp>

#include "base/json_fault.h"

namespace megalith::kernels {
namespace {

/// More than any machine will do for a while; a quotient of two such numbers is still one.
constexpr double kMostFlops = 1e30;

bool is_of_class(const nlohmann::json& entry, int index) {
  return entry.is_object() &&
         entry.value("class", nlohmann::json()) == nlohmann::json(name_of(product_class(index)));
}

std::optional<double> rate_in(const nlohmann::json& entry, const char* key, double least) {
  const auto found = entry.is_object() ? entry.find(key) : entry.end();
  if (found == entry.end() || !found->is_number()) return std::nullopt;
  const double rate = found->get<double>();
  if (!(rate >= least && rate <= kMostFlops)) return std::nullopt;
  return rate;
}

}  // namespace

std::string rates_text(const ProductRates& rates, std::string_view machine) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (size_t i = 0; i < rates.size(); ++i) {
    list.push_back({{"class", name_of(product_class(static_cast<int>(i)))},
                    {"exact", rates[i].exact},
                    {"library", rates[i].library}});
  }
  return nlohmann::ordered_json{{"machine", machine}, {"rates", list}}.dump(1) + "\n";
}

std::optional<ProductRates> rates_in(std::string_view text, std::string_view machine) {
  if (json_fault(text)) return std::nullopt;
  const auto json = nlohmann::json::parse(text);
  if (!json.is_object() || json.value("machine", nlohmann::json()) != nlohmann::json(machine))
    return std::nullopt;
  const auto list = json.value("rates", nlohmann::json());
  ProductRates rates;
  if (!list.is_array() || list.size() != rates.size()) return std::nullopt;
  for (size_t i = 0; i < rates.size(); ++i) {
    if (!is_of_class(list[i], static_cast<int>(i))) return std::nullopt;
    const auto exact = rate_in(list[i], "exact", 1), library = rate_in(list[i], "library", 0);
    if (!exact || !library) return std::nullopt;
    rates[i] = {*exact, *library};
  }
  return rates;
}

}  // namespace megalith::kernels
