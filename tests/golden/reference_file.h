// SPDX-License-Identifier: Apache-2.0
// Reads what tools/make_reference.py and tests/oracle/narrow_golden.py wrote, as doubles.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <vector>

#include "checkpoint/safetensors.h"
#include "device/device.h"

namespace megalith::golden {

class ReferenceFile {
 public:
  explicit ReferenceFile(const std::string& name, std::string_view folder = "pytorch")
      : file_(std::filesystem::path(MEGA_SOURCE_DIR) / "tests/golden" / folder /
              (name + ".safetensors")) {}

  /// Row major; throws when there is no such tensor.
  std::vector<double> read(const std::string& name) const {
    const checkpoint::SafetensorsEntry* entry = file_.find(name);
    if (entry == nullptr) throw std::out_of_range(name + " is not in " + file_.path().string());
    const auto count = static_cast<size_t>(entry->shape.num_elements());
    std::vector<double> values(count);
    if (entry->dtype == DType::f64) {
      file_.read(*entry, 0, entry->bytes, values.data());
    } else if (entry->dtype == DType::u8) {
      std::vector<uint8_t> narrow(count);
      file_.read(*entry, 0, entry->bytes, narrow.data());
      values.assign(narrow.begin(), narrow.end());
    } else {
      std::vector<float> narrow(count);
      file_.read(*entry, 0, entry->bytes, narrow.data());
      values.assign(narrow.begin(), narrow.end());
    }
    return values;
  }
  double scalar(const std::string& name) const { return read(name).at(0); }

 private:
  checkpoint::SafetensorsFile file_;
};

/// The values of a contiguous device view of f32 or f64.
inline std::vector<double> host_values(device::Device& device, ConstView view) {
  std::vector<double> values(static_cast<size_t>(view.num_elements()));
  if (view.dtype() == DType::f64) {
    device.wait(device.copy_to_host(values.data(), view));
  } else {
    std::vector<float> narrow(values.size());
    device.wait(device.copy_to_host(narrow.data(), view));
    values.assign(narrow.begin(), narrow.end());
  }
  return values;
}

inline double norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}

/// |x - reference| over the elements of `reference`; what x has beyond them is padding, which must
/// be 0.
inline double distance(const std::vector<double>& x, const std::vector<double>& reference) {
  EXPECT_GE(x.size(), reference.size());
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = i < reference.size() ? reference[i] : 0;
    if (i >= reference.size()) {
      EXPECT_EQ(x[i], 0) << "padding element " << i;
    }
    sum += (x[i] - expected) * (x[i] - expected);
  }
  return std::sqrt(sum);
}

}  // namespace megalith::golden
