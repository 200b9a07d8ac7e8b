// SPDX-License-Identifier: Apache-2.0
// Power cuts: the calls of several saves are recorded, and after every single one all disks that a
// cut could leave are built and loaded from. The loader must find the newest checkpoint that a save
// had reported (or a newer one that is whole), with the bytes that were saved; nothing, only if
// none had been reported; and never meet a torn one.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <optional>

#include "base/file.h"
#include "base/log.h"
#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"
#include "disk_model.h"
#include "save_fixture.h"

namespace megalith::faults {
namespace {

namespace fs = std::filesystem;

/// All calls of saves of steps 1 to 4 (one kept), of step 4 again, and of a start after a crash.
std::vector<Operation> record_run(const SaveFolder& folder) {
  record(folder.path.string());
  {
    SavedRun run(folder.path, 1);
    for (int step = 1; step <= 4; ++step) {
      run.save(step);
      note(std::to_string(step));
    }
    run.save(4);
  }
  fs::create_directory(folder.path / ".tmp-left");
  { const SavedRun next(folder.path, 1); }
  return stop();
}

/// The step that the loader finds on this disk, after its bytes were compared; nothing for none.
std::optional<int64_t> loaded_step(const fs::path& disk) {
  const auto newest = checkpoint::find_newest(disk, true);
  if (!newest) return std::nullopt;
  const checkpoint::Reader reader(*newest);
  EXPECT_TRUE(holds_step(reader)) << *newest;
  return reader.step();
}

TEST(CrashPrefixes, EveryPowerCutLeavesTheNewestDurableCheckpoint) {
  const SaveFolder folder, disk;
  const std::vector<Operation> operations = record_run(folder);
  ASSERT_GT(operations.size(), 100u);
  DiskModel model;
  int64_t reported = 0;
  size_t disks = 0, prefixes = 0, with_none = 0;
  for (size_t i = 0; i <= operations.size(); ++i) {
    if (i > 0) {
      const Operation& operation = operations[i - 1];
      if (operation.call == Call::note) {
        reported = std::stoll(operation.data);
        continue;
      }
      model.apply(operation);
    }
    ++prefixes;
    model.for_each_crash([&](const DiskModel::Write& write) {
      fs::remove_all(disk.path);
      write(disk.path);
      ++disks;
      std::optional<int64_t> step;
      ASSERT_NO_THROW(step = loaded_step(disk.path)) << "after call " << i;
      with_none += !step;
      ASSERT_TRUE(step || reported == 0) << "after call " << i << " nothing is left";
      ASSERT_GE(step.value_or(0), reported) << "after call " << i;
      if (disks % 16 != 0) return;
      // The next start removes what the cut left, and finds the same.
      { const SavedRun next(disk.path, 1); }
      ASSERT_EQ(loaded_step(disk.path), step);
      for (const auto& entry : fs::directory_iterator(disk.path))
        ASSERT_GE(checkpoint::step_of_folder(entry.path().filename().string()), 0) << entry.path();
    });
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(reported, 4);
  EXPECT_GT(with_none, 0u);
  std::printf("  %zu prefixes, %zu disks\n", prefixes, disks);
}

}  // namespace
}  // namespace megalith::faults
