// SPDX-License-Identifier: Apache-2.0
#include "precision/guard.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/json_number.h"

namespace megalith::precision {

double GuardCheck::difference() const {
  const double difference = std::abs(loss - wide_loss) / std::abs(wide_loss);
  return std::isfinite(difference) ? difference : std::numeric_limits<double>::infinity();
}

Guard::Guard(const GuardOptions& options, std::vector<int64_t> layer_of)
    : options_(options), layer_of_(std::move(layer_of)), wide_until_(layer_of_.size(), 0) {}

/// Not a number counts.
bool Guard::counts(const GuardCheck& check) const {
  if (check.difference() > options_.trip || !(check.cosine >= options_.cosine)) return true;
  return std::ranges::any_of(check.shares, [&](const OperandShares& share) {
    return share.saturated > options_.saturated || share.flushed > options_.flushed;
  });
}

double Guard::part_of_limits(const OperandShares& share) const {
  constexpr double kLeastLimit = 1e-6;  // a limit of 0 is one too
  return std::max(share.saturated / std::max(options_.saturated, kLeastLimit),
                  share.flushed / std::max(options_.flushed, kLeastLimit));
}

/// Of those in 8 bits: the one with a share that is the largest part of its limit. -1 where no
/// share is known.
int64_t Guard::worst_layer(const GuardCheck& check) const {
  int64_t worst = -1;
  double most = -1;
  for (size_t i = 0; i < check.shares.size(); ++i) {
    if (is_wide(i)) continue;
    const double part = part_of_limits(check.shares[i]);
    if (part <= most) continue;
    most = part;
    worst = layer_of_[i];
  }
  return worst;
}

Guard::Verdict Guard::judge(int64_t step, const GuardCheck& check) {
  if (!counts(check)) {
    beyond_ = 0;
    return check.difference() > options_.warn ? Verdict::warn : Verdict::good;
  }
  if (++beyond_ < options_.patience) return Verdict::counts;
  beyond_ = 0;
  const int64_t layer = options_.all ? -1 : worst_layer(check);
  for (size_t i = 0; i < layer_of_.size(); ++i) {
    if (layer == -1 || layer_of_[i] == layer) wide_until_[i] = step + options_.quiet;
  }
  return Verdict::falls_back;
}

std::vector<size_t> Guard::returning(int64_t step) {
  std::vector<size_t> products;
  for (size_t i = 0; i < wide_until_.size(); ++i) {
    if (!is_wide(i) || step < wide_until_[i]) continue;
    wide_until_[i] = 0;
    products.push_back(i);
  }
  return products;
}

int64_t Guard::num_wide() const {
  return std::ranges::count_if(wide_until_, [](int64_t step) { return step > 0; });
}

nlohmann::json Guard::to_json() const { return {{"beyond", beyond_}, {"wide_until", wide_until_}}; }

void Guard::restore(const nlohmann::json& json) {
  const auto fault = [](const char* what) {
    throw IntegrityError("the state of the guard over products in 8 bits {}", what);
  };
  const auto number = [&](const nlohmann::json& value) {
    const auto whole = whole_number_in(value);
    if (!whole || *whole < 0) fault("has a number that is none");
    return *whole;
  };
  if (!json.is_object() || !json.contains("beyond") || !json.contains("wide_until") ||
      !json["wide_until"].is_array())
    fault("has no counts");
  if (json["wide_until"].size() != wide_until_.size()) fault("is of another number of products");
  beyond_ = number(json["beyond"]);
  for (size_t i = 0; i < wide_until_.size(); ++i) wide_until_[i] = number(json["wide_until"][i]);
}

}  // namespace megalith::precision
