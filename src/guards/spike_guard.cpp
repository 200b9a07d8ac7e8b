// SPDX-License-Identifier: Apache-2.0
#include "guards/spike_guard.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "report/hex_float.h"

namespace megalith::guards {
namespace {

/// 1 / Phi^-1(3/4): makes the median absolute deviation estimate a standard deviation.
constexpr double kToDeviation = 1.4826;
/// Losses that hardly differ (a toy, a plateau) are no reason to call a small rise a spike.
constexpr double kLeastDeviation = 0.02;

/// The lower median; `values` not empty.
double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::optional<Spike> SpikeGuard::observe(double loss) {
  MEGA_CHECK(std::isfinite(loss));
  std::optional<Spike> spike;
  const auto seen = static_cast<int64_t>(losses_.size());
  if (2 * seen >= options_.window) {
    const double middle = median({losses_.begin(), losses_.end()});
    std::vector<double> distances;
    for (const double x : losses_) distances.push_back(std::abs(x - middle));
    const double deviation =
        std::max(kToDeviation * median(std::move(distances)), kLeastDeviation * std::abs(middle));
    const double threshold = middle + options_.factor * deviation;
    if (loss > threshold) spike = Spike{loss, middle, threshold};
  }
  losses_.push_back(loss);
  while (static_cast<int64_t>(losses_.size()) > options_.window) losses_.pop_front();
  return spike;
}

nlohmann::json SpikeGuard::to_json() const {
  nlohmann::json json = nlohmann::json::array();
  for (const double loss : losses_) json.push_back(report::hex_float(loss));
  return json;
}

void SpikeGuard::restore(const nlohmann::json& json) {
  if (!json.is_array()) throw IntegrityError("checkpoint: the spike guard's losses are not a list");
  losses_.clear();
  for (const auto& value : json) {
    const auto loss =
        value.is_string() ? report::parse_hex_float(value.get<std::string>()) : std::nullopt;
    if (!loss || !std::isfinite(*loss))
      throw IntegrityError("checkpoint: the spike guard's losses hold {}", value.dump());
    losses_.push_back(*loss);
  }
}

}  // namespace megalith::guards
