// SPDX-License-Identifier: Apache-2.0
// How many values lie between bounds, as Prometheus tells it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace megalith::serve {

class Histogram {
 public:
  /// `bounds` ascend, and must outlive it.
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size()) {}
  void add(double value);
  std::string text(const std::string& name, const std::string& labels) const;

 private:
  std::span<const double> bounds_;
  std::vector<int64_t> counts_;  // of values up to each bound, and above the one before
  int64_t count_ = 0;
  double sum_ = 0;
};

}  // namespace megalith::serve
