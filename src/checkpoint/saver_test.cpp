// SPDX-License-Identifier: Apache-2.0
// What is on disk after saves, failures, restarts and damage; which checkpoint is found then.
#include "checkpoint/saver.h"

#include <sys/resource.h>

#include <climits>
#include <fstream>
#include <future>
#include <memory>

#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"
#include "checkpoint/staged_folder.h"
#include "checkpoint/step_folders.h"
#include "comm/backends.h"

namespace megalith::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SaverTest : public CheckpointTest {
 protected:
  SaverTest() : device_(device::make_cpu_device(1)), values_(1000, 1.5F) {}

  void save(Saver& saver, int64_t step, int64_t best = 0) {
    const ConstView view(reinterpret_cast<const std::byte*>(values_.data()), DType::f32,
                         Shape{10, 100});
    const TensorSource tensor{"w", view};
    saver.save(*device_, step, {&tensor, 1}, {{"step", step}, {"best", best}},
               {{"recipe.yaml", "x"}});
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }
  fs::path step(int64_t step) const { return folder_ / step_folder_name(step); }
  /// The same length, other bytes.
  void damage(int64_t which) const {
    const fs::path file = step(which) / "state-00001-of-00001.safetensors";
    flip(file, static_cast<int64_t>(fs::file_size(file)) - 1);
  }

  std::unique_ptr<device::Device> device_;
  std::vector<float> values_;
};

TEST_F(SaverTest, a_background_save_is_of_the_values_at_the_call) {
  Saver saver(folder_, {{2}, true});
  EXPECT_EQ(saver.wait(), nullptr);
  save(saver, 3);
  std::ranges::fill(values_, 9.0F);
  const Saved* saved = saver.wait();
  ASSERT_NE(saved, nullptr);
  EXPECT_EQ(saved->step, 3);
  EXPECT_EQ(saved->folder, step(3));
  const Reader reader(saved->folder);
  EXPECT_EQ(reader.state_sha256(), saved->state_sha256);
  std::vector<float> host(1000);
  reader.read("w", Shard::whole(Shape{10, 100}), host.data());
  EXPECT_EQ(host, std::vector<float>(1000, 1.5F));
}

TEST_F(SaverTest, the_newest_checkpoints_are_kept) {
  Saver saver(folder_, {{2}, false});
  for (const int64_t step : {1, 2, 3, 10}) save(saver, step);
  EXPECT_THAT(names(), ElementsAre("step-00000003", "step-00000010"));
}

TEST_F(SaverTest, the_newest_regular_checkpoint_is_among_the_kept) {
  Saver saver(folder_, {{2, 5}, false});
  for (const int64_t step : {5, 6, 7, 8}) save(saver, step);
  EXPECT_THAT(names(), ElementsAre("step-00000005", "step-00000008"));
  save(saver, 10);
  EXPECT_THAT(names(), ElementsAre("step-00000008", "step-00000010"));
  for (const int64_t step : {11, 12}) save(saver, step);
  EXPECT_THAT(names(), ElementsAre("step-00000010", "step-00000012"));
  Saver one(folder_, {{1, 5}, false});
  save(one, 13);
  EXPECT_THAT(names(), ElementsAre("step-00000013"));
}

TEST_F(SaverTest, the_best_checkpoint_of_any_kept_one_stays_beside_them) {
  const auto best = [](const Reader& reader) -> std::optional<int64_t> {
    return reader.state().at("best");
  };
  Saver saver(folder_, {{1, 0, best}, true});
  for (const int64_t step : {1, 2, 3}) save(saver, step, 1);
  saver.wait();
  EXPECT_THAT(names(), ElementsAre("step-00000001", "step-00000003"));
  // One that is damaged is worth nothing.
  fs::remove(step(1) / "recipe.yaml");
  save(saver, 4, 1);
  saver.wait();
  EXPECT_THAT(names(), ElementsAre("step-00000004"));
  // Whoever goes back to the older of two finds what it calls its best.
  Saver two(folder_, {{2, 0, best}, false});
  save(two, 5, 4);
  save(two, 6, 4);
  save(two, 7, 7);
  EXPECT_THAT(names(), ElementsAre("step-00000004", "step-00000006", "step-00000007"));
  save(two, 8, 7);
  EXPECT_THAT(names(), ElementsAre("step-00000007", "step-00000008"));
}

TEST_F(SaverTest, a_damaged_checkpoint_takes_no_place_among_the_kept) {
  Saver saver(folder_, {{2}, false});
  save(saver, 1);
  save(saver, 2);
  fs::remove(step(2) / "recipe.yaml");
  save(saver, 3);
  EXPECT_THAT(names(), ElementsAre("step-00000001", "step-00000003"));
}

TEST_F(SaverTest, a_later_damaged_checkpoint_does_not_push_out_the_saved_one) {
  Saver saver(folder_, {{1}, false});
  save(saver, 20);
  fs::remove(step(20) / "recipe.yaml");
  save(saver, 15);
  EXPECT_THAT(names(), ElementsAre("step-00000015", "step-00000020"));
  EXPECT_EQ(newest_in(folder_, true), step(15));
  save(saver, 20);
  EXPECT_THAT(names(), ElementsAre("step-00000020"));
  EXPECT_EQ(newest_in(folder_, true), step(20));
}

TEST_F(SaverTest, a_link_takes_no_place_among_the_kept) {
  Saver saver(folder_ / "run", {{2}, false});
  Saver others(folder_ / "others", {{2}, false});
  save(others, 2);
  save(saver, 1);
  fs::create_directory_symlink(folder_ / "others" / step_folder_name(2),
                               folder_ / "run" / step_folder_name(2));
  save(saver, 3);
  EXPECT_TRUE(fs::exists(folder_ / "run" / step_folder_name(1)));
  EXPECT_FALSE(fs::exists(fs::symlink_status(folder_ / "run" / step_folder_name(2))));
  EXPECT_TRUE(fs::exists(folder_ / "others" / step_folder_name(2) / kCommitName));
}

/// Whole, and of the version that comes after this program's.
void make_newer(const fs::path& step) {
  std::string text = read_file(step / kManifestName);
  const std::string version = "\"format_version\": ";
  text.replace(text.find(version), version.size() + 1,
               version + std::to_string(kFormatVersion + 1));
  text.replace(text.find("\"tensors\""), 9, "\"what_is_new\"");
  write_file_durable(step / kManifestName, text);
  write_file_durable(step / kCommitName, sha256(std::as_bytes(std::span(text))) + "\n");
}

TEST_F(SaverTest, a_checkpoint_of_a_newer_format_is_refused_and_stays) {
  Saver saver(folder_, {{2}, false});
  for (const int64_t step : {1, 2, 3}) save(saver, step);
  make_newer(step(3));
  try {
    find_newest(folder_, true);
    FAIL() << "it was passed over";
  } catch (const NewerFormatError& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), HasSubstr(step(3).string()));
    EXPECT_THAT(error.what(), HasSubstr("version 4, and this program reads 1 to 3"));
  }
  const std::string manifest = read_file(step(3) / kManifestName);
  EXPECT_THROW(save(saver, 3), SystemError);
  EXPECT_EQ(read_file(step(3) / kManifestName), manifest);
  // Neither removed nor counted.
  for (const int64_t step : {4, 5, 6}) save(saver, step);
  EXPECT_THAT(names(), ElementsAre("step-00000003", "step-00000005", "step-00000006"));
  EXPECT_EQ(read_file(step(3) / kManifestName), manifest);
  // A damaged one is no more than that.
  put(step(3) / kCommitName, std::string(64, '0') + "\n");
  save(saver, 7);
  EXPECT_THAT(names(), ElementsAre("step-00000006", "step-00000007"));
}

TEST_F(SaverTest, all_ranks_hear_that_a_checkpoint_of_a_newer_format_stays) {
  {
    Saver saver(folder_, {{2}, false});
    save(saver, 3);
  }
  make_newer(step(3));
  std::promise<void> heard;
  std::string of_rank_1;
  const auto body = [&](comm::Communicator& world) {
    const auto device = device::make_cpu_device(1);
    Saver saver(folder_, {{2}, true}, &world);
    if (world.rank() == 0) {
      save(saver, 3);
      heard.get_future().wait();  // rank 0 itself says nothing meanwhile
      saver.wait();
      return;
    }
    const std::shared_ptr<void> at_the_end(nullptr, [&](void*) { heard.set_value(); });
    saver.save(*device, 3, {}, {}, {});
    try {
      saver.wait();
    } catch (const Error& error) {
      of_rank_1 = error.what();
    }
  };
  EXPECT_THAT([&] { comm::run_ranks(2, body, {60}); },
              ::testing::ThrowsMessage<SystemError>(HasSubstr("saving step 3 failed")));
  EXPECT_THAT(of_rank_1, HasSubstr("saving step 3 failed"));
  EXPECT_THAT(of_rank_1, HasSubstr("version 4, and this program reads"));
}

TEST_F(SaverTest, a_start_may_tidy_up_as_a_save_does) {
  {
    Saver saver(folder_, {{5}, false});
    for (const int64_t step : {1, 2, 3, 4}) save(saver, step);
  }
  Saver saver(folder_, {{2}, false});
  EXPECT_EQ(names().size(), 4U);
  saver.tidy(3);
  EXPECT_THAT(names(), ElementsAre("step-00000002", "step-00000003", "step-00000004"));
}

TEST_F(SaverTest, room_is_asked_for_in_bytes_and_files) {
  Saver saver(folder_, {{2}, false});
  const std::vector<int64_t> small(100, 1000);
  EXPECT_NO_THROW(saver.require_room(small, 1000));
  const std::vector<int64_t> huge{int64_t{1} << 60};
  try {
    saver.require_room(huge, 0);
    FAIL() << "no disk has that";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), HasSubstr("needs 1164"));  // 2^60 and 1 % and a little
    EXPECT_THAT(error.what(), HasSubstr("bytes, the disk has"));
  }
  const FolderNeeds needs = needs_of(std::vector<int64_t>{600, 600, 5000, 100}, 1000);
  EXPECT_EQ(needs.files, 4);
  EXPECT_GE(needs.largest, 5000);
  EXPECT_GE(needs.bytes, 6300);
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const struct rlimit limit { 50000, before.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::string said;
  try {
    saver.require_room(small, 0);
  } catch (const SystemError& error) {
    said = error.what();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(said, HasSubstr("a file may have 50000"));
}

TEST_F(SaverTest, a_folder_whose_files_would_have_too_long_names_is_refused_at_once) {
  // Room for the folder of a save in progress (22 bytes), not for the files in it (33 more).
  fs::path deep = folder_;
  const size_t wanted = PATH_MAX - 1 - 40;
  while (deep.native().size() + 202 < wanted) deep /= std::string(200, 'd');
  deep /= std::string(wanted - deep.native().size() - 1, 'd');
  try {
    Saver saver(deep, {{2}, false});
    FAIL() << "it could not save";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("run.out"));
    EXPECT_THAT(error.what(), HasSubstr("File name too long"));
  }
  EXPECT_TRUE(fs::is_empty(deep));
}

TEST_F(SaverTest, the_same_step_is_replaced_whole) {
  Saver saver(folder_, {{2}, false});
  save(saver, 5);
  const std::string before = Reader(step(5)).state_sha256();
  values_[7] = 2;
  save(saver, 5);
  EXPECT_NE(Reader(step(5)).state_sha256(), before);
  EXPECT_THAT(names(), ElementsAre("step-00000005"));
}

TEST_F(SaverTest, a_start_removes_what_is_temporary_and_no_checkpoint) {
  {
    Saver saver(folder_, {{2}, false});
    save(saver, 1);
    save(saver, 2);
  }
  fs::remove(step(2) / kCommitName);  // damaged: for the loader to name
  fs::create_directories(folder_ / ".tmp-0123456789abcdef" / "x");
  put(folder_ / ".tmp-fedcba9876543210", "half");
  // What is named otherwise is not a save's, and what is named as a checkpoint was one.
  for (const char* name : {".tmp-left", ".tmp-0123456789ABCDEF", ".tmp-aside-x", "notes.txt"})
    put(folder_ / name, "mine");
  fs::create_directories(step(3));
  Saver saver(folder_, {{1}, false});
  save(saver, 4);
  EXPECT_THAT(names(), ElementsAre(".tmp-0123456789ABCDEF", ".tmp-aside-x", ".tmp-left",
                                   "notes.txt", "step-00000003", "step-00000004"));
}

TEST_F(SaverTest, a_failure_in_the_background_reaches_the_next_call) {
  Saver saver(folder_ / "checkpoints", {{2}, true});
  save(saver, 1);
  ASSERT_NE(saver.wait(), nullptr);
  fs::rename(folder_ / "checkpoints", folder_ / "away");
  put(folder_ / "checkpoints", "a file");
  save(saver, 2);
  try {
    saver.wait();
    FAIL() << "the failure was lost";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::failure);
    EXPECT_THAT(error.what(), HasSubstr("saving step 2 failed"));
    EXPECT_THAT(error.what(), HasSubstr((folder_ / "checkpoints").string()));
  }
  // Delivered once, and saving goes on when the cause is gone; the older checkpoint is whole.
  fs::remove(folder_ / "checkpoints");
  fs::rename(folder_ / "away", folder_ / "checkpoints");
  EXPECT_EQ(newest_in(folder_ / "checkpoints", true), folder_ / "checkpoints" / "step-00000001");
  save(saver, 3);
  ASSERT_NE(saver.wait(), nullptr);
  EXPECT_EQ(saver.wait()->step, 3);
}

TEST_F(SaverTest, a_save_that_fails_halfway_leaves_everything_as_it_was) {
  FolderContent content{4, {counting_tensor("a", Shape{4}, 0)}, nlohmann::json::object(), {}};
  content.tensors.push_back(
      {"b", DType::f32, Shape{4}, [](TensorContent::Sink) { throw SystemError("no more space"); }});
  Saver saver(folder_, {{2}, false});
  save(saver, 4);
  const std::string before = Reader(step(4)).state_sha256();
  EXPECT_THROW(write_checkpoint_folder(step(4), content, 1), SystemError);
  EXPECT_THAT(names(), ElementsAre("step-00000004"));
  EXPECT_EQ(Reader(step(4)).state_sha256(), before);
}

TEST_F(SaverTest, a_folder_that_cannot_be_made_is_refused_at_once) {
  put(folder_ / "file", "");
  EXPECT_THROW(Saver(folder_ / "file", {}), UserError);
  EXPECT_THROW(Saver(folder_ / "file" / "checkpoints", {}), UserError);
  fs::create_symlink(folder_ / "nowhere", folder_ / "link");
  EXPECT_THROW(Saver(folder_ / "link", {}), UserError);
}

TEST_F(SaverTest, a_link_in_place_of_the_folder_is_not_followed) {
  const fs::path others = folder_ / "others", link = folder_ / "checkpoints";
  {
    Saver saver(others, {{5}, false});
    save(saver, 1);
  }
  put(others / ".tmp-of-another-run", "");
  fs::create_directory_symlink(others, link);
  EXPECT_THROW(Saver(link, {}), UserError);
  EXPECT_THROW(find_newest(link, true), UserError);
  EXPECT_TRUE(fs::exists(others / ".tmp-of-another-run"));
  // The folder of the whole run may be one.
  fs::create_directory_symlink(folder_, folder_ / "run");
  EXPECT_EQ(newest_in(folder_ / "run" / "others", true),
            folder_ / "run" / "others" / step_folder_name(1));
}

TEST_F(SaverTest, the_newest_whole_checkpoint_is_found) {
  EXPECT_EQ(newest_in(folder_ / "none", true), std::nullopt);
  EXPECT_EQ(newest_in(folder_, true), std::nullopt);
  Saver saver(folder_, {{5}, false});
  for (const int64_t step : {1, 2, 3, 4}) save(saver, step);
  EXPECT_EQ(newest_in(folder_, true), step(4));
  damage(4);
  EXPECT_EQ(newest_in(folder_, true), step(3));
  EXPECT_EQ(newest_in(folder_, false), step(4));  // sizes alone do not show it
  fs::remove(step(3) / kCommitName);
  EXPECT_EQ(newest_in(folder_, true), step(2));
  put(step(2) / kCommitName, std::string(64, '0') + "\n");
  EXPECT_EQ(newest_in(folder_, true), step(1));
  damage(1);
  const std::string fault = fault_of<IntegrityError>([&] { find_newest(folder_, true); });
  EXPECT_THAT(fault, HasSubstr("none of 4 checkpoints is whole"));
  EXPECT_THAT(fault, HasSubstr("tensor w is damaged"));
}

TEST_F(SaverTest, a_first_save_that_was_killed_is_no_checkpoint) {
  // All that a killed save leaves is temporary.
  fs::create_directories(folder_ / ".tmp-0123456789abcdef");
  EXPECT_EQ(newest_in(folder_, true), std::nullopt);
}

TEST_F(SaverTest, a_step_folder_was_a_checkpoint_whatever_it_lacks) {
  {
    Saver saver(folder_, {{2}, false});
    for (const int64_t step : {1, 2}) save(saver, step);
  }
  for (const int64_t number : {2, 1}) {
    fs::remove(step(number) / kCommitName);
    fs::remove(step(number) / kManifestName);
    if (number == 1) break;
    EXPECT_EQ(newest_in(folder_, true), step(1));
  }
  EXPECT_THAT(fault_of<IntegrityError>([&] { find_newest(folder_, true); }),
              HasSubstr("none of 2 checkpoints is whole"));
  const Saver next(folder_, {{2}, false});
  EXPECT_THAT(names(), ElementsAre("step-00000001", "step-00000002"));
}

TEST_F(SaverTest, what_a_replacement_put_aside_comes_back) {
  const fs::path aside = folder_ / ".tmp-aside-0123456789abcdef-step-00000002";
  {
    Saver saver(folder_, {{2}, false});
    for (const int64_t step : {1, 2}) save(saver, step);
  }
  fs::rename(step(2), aside);
  { const Saver next(folder_, {{2}, false}); }
  EXPECT_THAT(names(), ElementsAre("step-00000001", "step-00000002"));
  EXPECT_EQ(newest_in(folder_, true), step(2));
  // Its place is taken: it may go.
  fs::create_directory(aside);
  { const Saver next(folder_, {{2}, false}); }
  EXPECT_THAT(names(), ElementsAre("step-00000001", "step-00000002"));
}

TEST_F(SaverTest, a_staged_folder_is_all_or_nothing) {
  const fs::path target = folder_ / "model";
  {
    const StagedFolder staged(target);
    put(staged.path() / "a", "1");
  }
  EXPECT_TRUE(names().empty());
  for (const char* text : {"1", "2"}) {
    StagedFolder staged(target);
    put(staged.path() / text, text);
    staged.put_in_place();
    EXPECT_THAT(names(), ElementsAre("model"));
    EXPECT_EQ(read_file(target / text), text);
  }
  EXPECT_FALSE(fs::exists(target / "1"));
}

}  // namespace
}  // namespace megalith::checkpoint
