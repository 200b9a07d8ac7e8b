// SPDX-License-Identifier: Apache-2.0
// A run that saves: a device, two tensors whose values tell the step, a saver.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <numeric>
#include <vector>

#include "base/file.h"
#include "checkpoint/reader.h"
#include "checkpoint/saver.h"
#include "device/device.h"

namespace megalith::faults {

/// A folder of its own, removed at the end; in memory where the machine has /dev/shm.
struct SaveFolder {
  std::filesystem::path path;
  SaveFolder() {
    const bool memory = std::filesystem::is_directory("/dev/shm");
    std::string name = std::filesystem::path(memory ? "/dev/shm" : ::testing::TempDir()) /
                       "megalith-faults-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw SystemError("{} (mkdtemp)", name);
    path = name;
  }
  ~SaveFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  SaveFolder(const SaveFolder&) = delete;
  SaveFolder& operator=(const SaveFolder&) = delete;
};

inline std::vector<float> values_of(int64_t step, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), static_cast<float>(1000 * step));
  return values;
}

class SavedRun {
 public:
  /// `rows` of five numbers are the first tensor.
  SavedRun(const std::filesystem::path& folder, int64_t keep, int64_t rows = 8)
      : device_(device::make_cpu_device(1)),
        weights_(device_->arena(device::MemoryClass::weights).tensor(DType::f32, Shape{rows, 5})),
        moments_(device_->arena(device::MemoryClass::weights).tensor(DType::f32, Shape{7})),
        saver_(folder, {keep, true}) {}

  /// Saves `step` and waits until it is durable; throws the save's failure.
  void save(int64_t step) {
    fill(weights_.view, step);
    fill(moments_.view, step);
    const std::vector<checkpoint::TensorSource> tensors{{"w", weights_.view}, {"m", moments_.view}};
    saver_.save(*device_, step, tensors, {{"step", step}},
                {{"recipe.yaml", "step: " + std::to_string(step) + "\n"}});
    saver_.wait();
  }

 private:
  void fill(View view, int64_t step) {
    const std::vector<float> values = values_of(step, view.shape().num_elements());
    device_->wait(device_->copy_to_device(view, values.data()));
  }

  std::unique_ptr<device::Device> device_;
  device::Tensor weights_, moments_;
  checkpoint::Saver saver_;
};

/// Whether a checkpoint holds exactly what SavedRun saved at its step.
inline bool holds_step(const checkpoint::Reader& reader) {
  for (const checkpoint::TensorInfo& tensor : reader.tensors()) {
    const std::vector<float> expected = values_of(reader.step(), tensor.shape.num_elements());
    std::vector<float> values(expected.size());
    reader.read(tensor.name, Shard::whole(tensor.shape), values.data());
    if (values != expected) return false;
  }
  return reader.tensors().size() == 2 &&
         reader.text("recipe.yaml") == "step: " + std::to_string(reader.step()) + "\n";
}

}  // namespace megalith::faults
