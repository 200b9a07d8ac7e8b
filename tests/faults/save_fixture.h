// SPDX-License-Identifier: Apache-2.0
// A run that saves: a device, two tensors whose values tell the step, a saver; alone or as one of
// several ranks.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "base/file.h"
#include "checkpoint/reader.h"
#include "checkpoint/saver.h"
#include "comm/backends.h"
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

/// A folder on a disk that takes writes around the page cache, or nothing. The caller removes it.
inline std::optional<std::filesystem::path> direct_folder() {
  std::string name =
      (std::filesystem::path(::testing::TempDir()) / "megalith-direct-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) return std::nullopt;
  const std::filesystem::path probe = std::filesystem::path(name) / "try";
  const int fd = ::open(probe.c_str(), O_WRONLY | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
  if (fd >= 0) {
    ::close(fd);
    std::filesystem::remove(probe);
    return name;
  }
  std::filesystem::remove_all(name);
  return std::nullopt;
}

inline std::vector<float> values_of(int64_t step, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), static_cast<float>(1000 * step));
  return values;
}

class SavedRun {
 public:
  /// `rows` of five numbers are the first tensor. With `world` it is cut between the ranks along
  /// the rows, and the second one is the last rank's.
  SavedRun(const std::filesystem::path& folder, int64_t keep, int64_t rows = 8,
           comm::Communicator* world = nullptr)
      : device_(device::make_cpu_device(1)),
        rank_(world != nullptr ? world->rank() : 0),
        ranks_(world != nullptr ? world->size() : 1),
        whole_{rows, 5},
        shard_(Shard::part(whole_, 0, rank_, ranks_)),
        weights_(device_->arena(device::MemoryClass::weights)
                     .tensor(DType::f32, shard_.local_shape(whole_))),
        moments_(device_->arena(device::MemoryClass::weights).tensor(DType::f32, Shape{7})),
        saver_(folder, {keep, true}, world) {}

  /// Saves `step` and waits until it is durable; throws the save's failure.
  void save(int64_t step) {
    fill(weights_.view, step, shard_.begin * 5);
    fill(moments_.view, step, 0);
    std::vector<checkpoint::TensorSource> tensors{
        {"w", weights_.view, checkpoint::Cut{whole_, shard_}}};
    if (rank_ == ranks_ - 1) tensors.push_back({"m", moments_.view});
    saver_.save(*device_, step, tensors, {{"step", step}},
                {{"recipe.yaml", "step: " + std::to_string(step) + "\n"}});
    saver_.wait();
  }

 private:
  void fill(View view, int64_t step, int64_t first) {
    const std::vector<float> values = values_of(step, first + view.shape().num_elements());
    device_->wait(device_->copy_to_device(view, values.data() + first));
  }

  std::unique_ptr<device::Device> device_;
  int rank_, ranks_;
  Shape whole_;
  Shard shard_;
  device::Tensor weights_, moments_;
  checkpoint::Saver saver_;
};

/// One start of that run over two ranks. `saved`: called by rank 0 after each step.
inline void save_over_ranks(const std::filesystem::path& folder, int64_t keep,
                            std::initializer_list<int64_t> steps,
                            const std::function<void(int64_t)>& saved = {},
                            double deadline_seconds = 60) {
  comm::run_ranks(2,
                  [&](comm::Communicator& world) {
                    SavedRun run(folder, keep, 8, &world);
                    for (const int64_t step : steps) {
                      run.save(step);
                      if (saved && world.rank() == 0) saved(step);
                    }
                  },
                  {deadline_seconds});
}

/// A run over two ranks that starts anew for every save: a failure ends both.
class SavedRanks {
 public:
  SavedRanks(std::filesystem::path folder, int64_t keep)
      : folder_(std::move(folder)), keep_(keep) {}
  void save(int64_t step) const { save_over_ranks(folder_, keep_, {step}); }

 private:
  std::filesystem::path folder_;
  int64_t keep_;
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
