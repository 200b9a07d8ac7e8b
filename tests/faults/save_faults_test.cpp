// SPDX-License-Identifier: Apache-2.0
// Every call of a save fails once, in every way it can. The save must then fail as a whole, naming
// the cause; the checkpoint before stays whole; no COMMIT of the failed step remains; and the next
// save succeeds. Interrupted and short calls are not failures. And every call of a search for the
// newest checkpoint fails once: that is no reason to take an older one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>

#include "checkpoint/manifest.h"
#include "checkpoint/step_folders.h"
#include "save_fixture.h"
#include "train/run_checkpoints.h"

#include "file_faults.h"

namespace megalith::faults {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int kKeep = 2;

/// What a failed save of step 2 must leave.
void check_left(const fs::path& folder, const std::string& what) {
  const auto newest = checkpoint::find_newest(folder, true);
  ASSERT_TRUE(newest) << what;
  EXPECT_EQ(newest->step(), 1) << what;
  EXPECT_TRUE(holds_step(*newest)) << what;
  EXPECT_FALSE(fs::exists(folder / checkpoint::step_folder_name(2) / checkpoint::kCommitName))
      << what;
}

/// Saves step 1, then step 2 with the n-th call failing. False when there were fewer calls.
template <typename Run = SavedRun>
bool save_with(const Injection& injection, bool is_failure) {
  const SaveFolder folder;
  Run run(folder.path, kKeep);
  run.save(1);
  const std::string what =
      fmt::format("call {} number {} with errno {}", static_cast<int>(injection.call),
                  injection.nth, injection.error);
  inject(folder.path.string(), injection);
  std::string message;
  try {
    run.save(2);
  } catch (const Error& error) {
    message = error.what();
    EXPECT_EQ(error.code(), ExitCode::failure) << what;
  }
  if (!injected()) {
    EXPECT_EQ(message, "") << what;
    return false;
  }
  if (is_failure) {
    EXPECT_THAT(message, HasSubstr(std::strerror(injection.error))) << what;
    EXPECT_THAT(message, HasSubstr(folder.path.string())) << what;
    if (injection.call == Call::write && injection.error == ENOSPC) {
      EXPECT_THAT(message, HasSubstr("bytes more do not fit; make room")) << what;
    }
    check_left(folder.path, what);
    run.save(2);  // the cause is gone
  } else {
    EXPECT_EQ(message, "") << what;
  }
  const auto newest = checkpoint::find_newest(folder.path, true);
  EXPECT_TRUE(newest && holds_step(*newest)) << what;
  EXPECT_EQ(newest->step(), 2) << what;
  return true;
}

template <typename Run = SavedRun>
int64_t every_call(Call call, int error, bool is_failure) {
  int64_t n = 1;
  while (save_with<Run>({call, n, error}, is_failure) && !testing::Test::HasFailure()) ++n;
  return n - 1;
}

TEST(SaveFaults, EveryWriteFails) {
  EXPECT_GE(every_call(Call::write, EIO, true), 4);
  EXPECT_GE(every_call(Call::write, ENOSPC, true), 4);
  EXPECT_GE(every_call(Call::write, EDQUOT, true), 4);
}

TEST(SaveFaults, EveryFsyncFails) {
  EXPECT_GE(every_call(Call::sync, EIO, true), 6);
  EXPECT_GE(every_call(Call::sync, ENOSPC, true), 6);
}

TEST(SaveFaults, EveryRenameFails) {
  EXPECT_GE(every_call(Call::rename, EIO, true), 4);
  EXPECT_GE(every_call(Call::rename, ENOSPC, true), 4);
}

TEST(SaveFaults, EveryCloseFails) {
  EXPECT_GE(every_call(Call::close, EIO, true), 4);
  EXPECT_GE(every_call(Call::close, ENOSPC, true), 4);
}

TEST(SaveFaults, EveryFileAndFolderCannotBeMade) {
  for (const int error : {EIO, ENOSPC, EMFILE, EDQUOT}) {
    EXPECT_GE(every_call(Call::open, error, true), 4);
    EXPECT_EQ(every_call(Call::mkdir, error, true), 1);
  }
}

TEST(SaveFaults, InterruptedAndShortCallsAreNoFailures) {
  EXPECT_GE(every_call(Call::write, EINTR, false), 4);
  EXPECT_GE(every_call(Call::write, 0, false), 4);
  EXPECT_GE(every_call(Call::open, EINTR, false), 4);
  EXPECT_GE(every_call(Call::close, EINTR, false), 4);
  EXPECT_GE(every_call(Call::sync, EINTR, false), 6);
  EXPECT_GE(every_call(Call::look, EINTR, false), 4);
}

// A network file system may have done it before the signal came: doing it again would exchange two
// names back. It is a failure like others.
TEST(SaveFaults, InterruptedChangesOfNamesAreFailures) {
  EXPECT_GE(every_call(Call::rename, EINTR, true), 4);
  EXPECT_EQ(every_call(Call::mkdir, EINTR, true), 1);
}

// A call of either rank: what fails on one is the failure of the save, on both.
TEST(SaveFaults, EveryCallOverRanks) {
  EXPECT_GE(every_call<SavedRanks>(Call::write, EIO, true), 5);
  EXPECT_GE(every_call<SavedRanks>(Call::write, ENOSPC, true), 5);
  EXPECT_GE(every_call<SavedRanks>(Call::sync, EIO, true), 9);
  EXPECT_GE(every_call<SavedRanks>(Call::sync, ENOSPC, true), 9);
  EXPECT_GE(every_call<SavedRanks>(Call::rename, EIO, true), 6);
  EXPECT_GE(every_call<SavedRanks>(Call::rename, ENOSPC, true), 6);
  EXPECT_GE(every_call<SavedRanks>(Call::close, EIO, true), 5);
  EXPECT_GE(every_call<SavedRanks>(Call::close, ENOSPC, true), 5);
  EXPECT_GE(every_call<SavedRanks>(Call::open, EMFILE, true), 5);
  EXPECT_EQ(every_call<SavedRanks>(Call::mkdir, ENOSPC, true), 2);  // the probe of its start too
  for (const int no_error : {EINTR, 0})
    EXPECT_GE(every_call<SavedRanks>(Call::write, no_error, false), 5);
}

// What rank 0 alone does at the end takes longer than the other one waits for who is silent.
TEST(SaveFaults, SlowDisksAreWaitedForByAllRanks) {
  const SaveFolder folder;
  inject(folder.path.string(), {Call::sync, 3, 0, 600, true});
  EXPECT_NO_THROW(save_over_ranks(folder.path, kKeep, {1}, {}, 3));
  EXPECT_TRUE(injected());
  EXPECT_TRUE(holds_step(checkpoint::Reader(folder.path / checkpoint::step_folder_name(1))));
}

// A full disk is the machine's trouble, and another place does not help a person who may not write.
TEST(SaveFaults, AStartThatCannotMakeItsProbeSaysWhoseTroubleItIs) {
  const SaveFolder folder;
  const auto code_with = [&](int error) {
    inject(folder.path.string(), {Call::mkdir, 1, error});
    try {
      const SavedRun run(folder.path, kKeep);
    } catch (const Error& failure) {
      EXPECT_TRUE(injected());
      EXPECT_THAT(failure.what(), HasSubstr(std::strerror(error)));
      EXPECT_THAT(failure.what(), HasSubstr(folder.path.string()));
      return failure.code();
    }
    return ExitCode::ok;
  };
  for (const int error : {ENOSPC, EDQUOT, EIO}) EXPECT_EQ(code_with(error), ExitCode::failure);
  for (const int error : {EACCES, EROFS}) EXPECT_EQ(code_with(error), ExitCode::usage);
}

TEST(SaveFaults, AThreadThatCannotBeMadeIsNamed) {
  EXPECT_TRUE(save_with({Call::thread, 1, EAGAIN}, true));
  // The one that asks for a snapshot's pages ahead is a wish.
  const SaveFolder folder;
  SavedRun run(folder.path, kKeep);
  inject(folder.path.string(), {Call::thread, 1, EAGAIN});
  EXPECT_NO_THROW(run.save(1));
  EXPECT_TRUE(injected());
  EXPECT_TRUE(holds_step(checkpoint::Reader(folder.path / checkpoint::step_folder_name(1))));
}

/// Saves step 2 again, where renames know no flags, with one call failing; then starts anew.
bool replace_with(const Injection& injection) {
  const SaveFolder folder;
  std::optional<SavedRun> run(std::in_place, folder.path, kKeep);
  for (const int step : {1, 2}) run->save(step);
  inject(folder.path.string(), injection);
  plain_renames(true);
  bool failed = false;
  try {
    run->save(2);
  } catch (const Error& error) {
    failed = true;
    EXPECT_EQ(error.code(), ExitCode::failure);
  }
  const bool reached = injected();
  plain_renames(false);
  const std::string what =
      fmt::format("call {} number {}", static_cast<int>(injection.call), injection.nth);
  EXPECT_EQ(failed, reached && injection.call != Call::unlink) << what;
  run.reset();
  run.emplace(folder.path, kKeep);
  const auto newest = checkpoint::find_newest(folder.path, true);
  EXPECT_TRUE(newest && holds_step(*newest)) << what;
  EXPECT_EQ(newest->step(), 2) << what;
  for (const auto& entry : fs::directory_iterator(folder.path))
    EXPECT_FALSE(entry.path().filename().string().starts_with(".tmp-") &&
                 !fs::is_empty(entry.path()))
        << what << ": " << entry.path();
  return reached;
}

TEST(SaveFaults, WhereNamesCannotBeExchangedNothingIsLostEither) {
  for (const Call call : {Call::rename, Call::sync, Call::unlink}) {
    int64_t n = 1;
    while (replace_with({call, n, EIO}) && !testing::Test::HasFailure()) ++n;
    EXPECT_GE(n, 5) << static_cast<int>(call);
  }
}

// Tensors of some bytes are written from one buffer, at the end and plainly: this one is not.
TEST(SaveFaults, LargeFilesThatAreWrittenAroundThePageCache) {
  const auto folder = direct_folder();
  if (!folder) GTEST_SKIP() << "no file system here takes O_DIRECT";
  constexpr int64_t kRows = 450'001;  // 9 MB, and no whole number of blocks
  SavedRun run(*folder / "checkpoints", 1, kRows);
  const fs::path target = *folder / "checkpoints" / checkpoint::step_folder_name(1);
  // None is a failure; but the third write, the end of the file, is a plain one, which may not be
  // refused.
  for (const int error : {EINVAL, 0, EINTR}) {
    for (int64_t n = 1; n <= (error == EINVAL ? 2 : 3); ++n) {
      fs::remove_all(target);
      inject(folder->string(), {Call::write, n, error});
      EXPECT_NO_THROW(run.save(1)) << n << " " << error;
      EXPECT_TRUE(injected()) << n;
      EXPECT_TRUE(holds_step(checkpoint::Reader(target))) << n << " " << error;
      checkpoint::Reader(target).verify_all();
    }
  }
  for (int64_t n = 1; n <= 3; ++n) {
    fs::remove_all(target);
    inject(folder->string(), {Call::write, n, EIO});
    EXPECT_THROW(run.save(1), SystemError) << n;
    EXPECT_TRUE(injected()) << n;
    EXPECT_FALSE(fs::exists(target)) << n;
  }
  fs::remove_all(*folder);
}

/// Saves step 3 over steps 1 and 2 (two are kept) with one call of pruning failing.
void prune_with(const Injection& injection, bool& reached) {
  const SaveFolder folder;
  SavedRun run(folder.path, kKeep);
  for (const int step : {1, 2}) run.save(step);
  inject(folder.path.string(), injection);
  bool saved = true;
  try {
    run.save(3);
  } catch (const Error&) {
    saved = false;
  }
  reached = injected();
  const std::string what =
      fmt::format("call {} number {}", static_cast<int>(injection.call), injection.nth);
  // A checkpoint that cannot be looked at now is not a damaged one: as many whole ones as are to be
  // kept are there, whatever went wrong.
  for (const int step : saved ? std::vector{2, 3} : std::vector{1, 2}) {
    const fs::path path = folder.path / checkpoint::step_folder_name(step);
    ASSERT_TRUE(fs::exists(path)) << what << ": step " << step << " is gone";
    EXPECT_TRUE(holds_step(checkpoint::Reader(path))) << what;
  }
}

TEST(SaveFaults, AnOldCheckpointThatCannotBeReadOrRemovedStays) {
  for (const Call call : {Call::look, Call::unlink, Call::rename, Call::sync}) {
    bool reached = true;
    int64_t n = 0;
    while (reached && !testing::Test::HasFailure()) prune_with({call, ++n, EIO}, reached);
    EXPECT_GE(n, 3) << static_cast<int>(call);
  }
}

using Choice = std::function<std::optional<fs::path>(const fs::path& checkpoints)>;

/// Chooses among two whole checkpoints with one call failing. False when it was not reached.
bool choose_with(const Choice& choose, const Injection& injection) {
  const SaveFolder folder;
  SavedRun run(folder.path, kKeep);
  for (const int step : {1, 2}) run.save(step);
  const std::string what =
      fmt::format("call {} number {} with errno {}", static_cast<int>(injection.call),
                  injection.nth, injection.error);
  std::string message;
  std::optional<fs::path> chosen;
  inject(folder.path.string(), injection);
  try {
    chosen = choose(folder.path);
  } catch (const Error& error) {
    message = error.what();
    EXPECT_EQ(error.code(), ExitCode::failure) << what << ": " << message;
  }
  if (!injected()) {
    EXPECT_EQ(chosen, folder.path / checkpoint::step_folder_name(2)) << what;
    return false;
  }
  EXPECT_FALSE(chosen.has_value()) << what << ": " << chosen.value_or("").string();
  EXPECT_THAT(message, HasSubstr(std::strerror(injection.error))) << what;
  EXPECT_THAT(message, HasSubstr(folder.path.string())) << what;
  return true;
}

void fail_every_look(const Choice& choose) {
  for (const Call call : {Call::look, Call::read}) {
    for (const int error : {EIO, EACCES, EMFILE}) {
      int64_t n = 1;
      while (choose_with(choose, {call, n, error}) && !testing::Test::HasFailure()) ++n;
      EXPECT_GE(n, 4) << static_cast<int>(call);
    }
  }
}

// A run that went on from the step before would do again what is not lost, and save over it.
TEST(LoadFaults, ACheckpointThatCannotBeReadNowIsNotTakenForADamagedOne) {
  fail_every_look([](const fs::path& folder) {
    const auto newest = checkpoint::find_newest(folder, true);
    return newest ? std::optional(newest->folder()) : std::nullopt;
  });
}

TEST(LoadFaults, NorByARunThatGoesBack) {
  fail_every_look(
      [](const fs::path& folder) { return train::regular_checkpoint_before(folder, 3, 1); });
}

}  // namespace
}  // namespace megalith::faults
