// SPDX-License-Identifier: Apache-2.0
// Power cuts: the calls of several saves are recorded, and after every single one all disks that a
// cut could leave are built and loaded from. The loader must find the newest checkpoint that a save
// had reported (or a newer one that is whole), with the bytes that were saved; nothing, only if
// none had been reported; and never meet a torn one.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>

#include "base/file.h"
#include "base/log.h"
#include "checkpoint/manifest.h"
#include "checkpoint/step_folders.h"
#include "disk_model.h"
#include "save_fixture.h"

namespace megalith::faults {
namespace {

namespace fs = std::filesystem;

/// Of five numbers: 4.2 MB.
constexpr int64_t kLargeRows = 210'000;

/// Where the checkpoints lie on a disk: the folders above them are the run's to make as well.
fs::path checkpoints_on(const fs::path& disk) { return disk / "run" / "checkpoints"; }

/// All calls of saves of steps 1 to 4 (one kept), of step 4 again, and of a start after a crash.
std::vector<Operation> record_run(const SaveFolder& folder) {
  const fs::path checkpoints = checkpoints_on(folder.path);
  record(folder.path.string());
  {
    SavedRun run(checkpoints, 1);
    for (int step = 1; step <= 4; ++step) {
      run.save(step);
      note(std::to_string(step));
    }
    run.save(4);
  }
  fs::create_directory(checkpoints / ".tmp-0123456789abcdef");
  { const SavedRun next(checkpoints, 1); }
  return stop();
}

/// The same for one step saved twice, where renames know no flags and every file has a name.
std::vector<Operation> record_plain_run(const SaveFolder& folder) {
  record(folder.path.string());
  plain_renames(true);
  no_nameless_files(true);
  {
    SavedRun run(checkpoints_on(folder.path), 1);
    run.save(1);
    note("1");
    run.save(1);
  }
  plain_renames(false);
  no_nameless_files(false);
  return stop();
}

/// The same of two ranks.
std::vector<Operation> record_ranks(const SaveFolder& folder) {
  const fs::path checkpoints = checkpoints_on(folder.path);
  record(folder.path.string());
  save_over_ranks(checkpoints, 1, {1, 2}, [](int64_t step) { note(std::to_string(step)); });
  save_over_ranks(checkpoints, 1, {2});
  return stop();
}

/// One save of a file that takes more than one of its writer's buffers.
std::vector<Operation> record_large(const fs::path& folder) {
  record(folder.string());
  SavedRun run(checkpoints_on(folder), 1, kLargeRows);
  run.save(1);
  note("1");
  return stop();
}

/// The step that the loader finds on this disk, after its bytes were compared; nothing for none.
std::optional<int64_t> loaded_step(const fs::path& disk) {
  const auto newest = checkpoint::find_newest(checkpoints_on(disk), true);
  if (!newest) return std::nullopt;
  EXPECT_TRUE(holds_step(*newest)) << newest->folder();
  return newest->step();
}

/// What the next start leaves of a disk, and that it finds the same.
void start_on(const fs::path& disk) {
  { const SavedRun next(checkpoints_on(disk), 1); }
  for (const auto& entry : fs::directory_iterator(checkpoints_on(disk)))
    ASSERT_GE(checkpoint::step_of_folder(entry.path().filename().string()), 0) << entry.path();
}

/// How many of the disks that the operations could leave hold no checkpoint. The start that comes
/// next is tried on every `starts`-th disk; `starts_first`: and only what it finds counts.
size_t crash_everywhere(const std::vector<Operation>& operations, size_t starts,
                        bool starts_first) {
  const SaveFolder disk;
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
      if (starts_first) start_on(disk.path);
      std::optional<int64_t> step;
      ASSERT_NO_THROW(step = loaded_step(disk.path)) << "after call " << i;
      with_none += !step;
      ASSERT_TRUE(step || reported == 0) << "after call " << i << " nothing is left";
      ASSERT_GE(step.value_or(0), reported) << "after call " << i;
      if (starts_first || disks % starts != 0) return;
      start_on(disk.path);
      ASSERT_EQ(loaded_step(disk.path), step);
    });
    if (testing::Test::HasFatalFailure()) break;
  }
  EXPECT_GT(reported, 0);
  std::printf("  %zu prefixes, %zu disks\n", prefixes, disks);
  return with_none;
}

TEST(CrashPrefixes, EveryPowerCutLeavesTheNewestDurableCheckpoint) {
  const SaveFolder folder;
  const std::vector<Operation> operations = record_run(folder);
  ASSERT_GT(operations.size(), 100u);
  EXPECT_GT(crash_everywhere(operations, 16, false), 0u);
}

// Rank 0's fsync of the folder makes the entries of the other's files durable, and there is no
// COMMIT before their bytes are.
TEST(CrashPrefixes, NorDoSavesOfSeveralRanksDependOnWhoIsFirst) {
  const SaveFolder folder;
  const std::vector<Operation> operations = record_ranks(folder);
  ASSERT_TRUE(std::ranges::any_of(operations, [](const Operation& operation) {
    return operation.call == Call::rename &&
           operation.to.ends_with("state-00002-of-00002.safetensors");
  }));
  EXPECT_GT(crash_everywhere(operations, 16, false), 0u);
}

TEST(CrashPrefixes, NorFilesThatGoAroundThePageCache) {
  const auto direct = direct_folder();
  const SaveFolder memory;
  const std::vector<Operation> operations = record_large(direct.value_or(memory.path));
  if (direct) fs::remove_all(*direct);
  EXPECT_GE(std::ranges::count_if(operations,
                                  [](const Operation& operation) {
                                    return operation.call == Call::write &&
                                           operation.data.size() > 4096;
                                  }),
            2);
  EXPECT_GT(crash_everywhere(operations, 16, false), 0u);
}

TEST(CrashPrefixes, AndWhereNamesCannotBeExchangedTheNextStartFindsIt) {
  const SaveFolder folder;
  const std::vector<Operation> operations = record_plain_run(folder);
  ASSERT_TRUE(std::ranges::any_of(operations, [](const Operation& operation) {
    return operation.call == Call::rename && operation.to.find("/.tmp-aside-") != std::string::npos;
  }));
  EXPECT_GT(crash_everywhere(operations, 1, true), 0u);
}

}  // namespace
}  // namespace megalith::faults
