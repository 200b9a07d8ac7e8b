// SPDX-License-Identifier: Apache-2.0
// Shards and their index: complete, or refused by name.
#include "checkpoint/safetensors_folder.h"

#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint_fixture.h"

namespace megalith::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Shards : public CheckpointTest {
 protected:
  void shard(const std::string& file, const std::string& tensor) const {
    const TensorContent content = counting_tensor(tensor, Shape{3}, 0);
    write_safetensors(folder_ / file, {&content, 1});
  }
  void index(const nlohmann::json& map) const {
    put(folder_ / kIndexName, nlohmann::json{{"weight_map", map}}.dump());
  }
  std::string fault() const {
    return fault_of<IntegrityError>([&] { SafetensorsFolder folder(folder_); });
  }
};

TEST_F(Shards, all_tensors_of_all_shards_are_there) {
  shard("m-1.safetensors", "a");
  shard("m-2.safetensors", "b");
  index({{"a", "m-1.safetensors"}, {"b", "m-2.safetensors"}});
  const SafetensorsFolder folder(folder_);
  ASSERT_EQ(folder.tensors().size(), 2U);
  EXPECT_EQ(folder.find("b")->file->path(), folder_ / "m-2.safetensors");
  EXPECT_EQ(folder.find("c"), nullptr);
}

TEST_F(Shards, what_index_and_shards_disagree_on_is_named) {
  EXPECT_THAT(fault(), HasSubstr("neither model.safetensors nor"));
  shard("m-1.safetensors", "a");
  shard("m-2.safetensors", "b");
  index({{"a", "m-1.safetensors"}, {"b", "m-3.safetensors"}});
  EXPECT_THAT(fault(), HasSubstr("m-3.safetensors is missing"));
  index({{"a", "m-1.safetensors"}, {"b", "m-1.safetensors"}});
  EXPECT_THAT(fault(), HasSubstr("tensor b is missing"));
  index({{"a", "m-2.safetensors"}, {"b", "m-1.safetensors"}});
  EXPECT_THAT(fault(), HasSubstr("tensor a is missing"));
  index({{"b", "m-2.safetensors"}, {"c", "m-1.safetensors"}});
  EXPECT_THAT(fault(), HasSubstr("tensor c is missing"));
  shard("m-2.safetensors", "a");
  index({{"a", "m-1.safetensors"}, {"b", "m-2.safetensors"}});
  EXPECT_THAT(fault(), HasSubstr("tensor a is also in"));
}

TEST_F(Shards, names_and_links_may_not_leave_the_folder) {
  for (const char* name : {"../m.safetensors", "/etc/passwd", "..", "", "x/y"}) {
    index({{"a", name}});
    EXPECT_THAT(fault(), HasSubstr("is not plain")) << name;
  }
  const fs::path outside = folder_ / "outside";
  fs::create_directories(outside / "model");
  shard("outside/real.safetensors", "a");
  fs::create_symlink(outside / "real.safetensors", outside / "model" / kSingleName);
  EXPECT_THAT(fault_of<IntegrityError>([&] { SafetensorsFolder folder(outside / "model"); }),
              HasSubstr("leads out of its folder"));
}

TEST_F(Shards, the_hub_cache_is_read_through_its_links) {
  fs::create_directories(folder_ / "blobs");
  fs::create_directories(folder_ / "snapshots" / "0123");
  shard("blobs/abcdef", "a");
  fs::create_symlink("../../blobs/abcdef", folder_ / "snapshots" / "0123" / kSingleName);
  EXPECT_EQ(SafetensorsFolder(folder_ / "snapshots" / "0123").tensors().size(), 1U);
}

TEST_F(Shards, an_index_that_is_none_is_refused) {
  for (const char* text : {"", "[]", "{}", R"({"weight_map":[]})", R"({"weight_map":{"a":1}})"}) {
    put(folder_ / kIndexName, text);
    EXPECT_THAT(fault(), HasSubstr(kIndexName)) << text;
  }
}

}  // namespace
}  // namespace megalith::checkpoint
