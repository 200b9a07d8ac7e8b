// SPDX-License-Identifier: Apache-2.0
// A checkpoint gives back what was written, in whole and in parts, and is refused, with the names
// of file and tensor, when anything about it is not as it was.
#include "checkpoint/reader.h"
#include "checkpoint/step_folders.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/manifest.h"
#include "checkpoint/state_digest.h"

namespace megalith::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Checkpoint : public CheckpointTest {
 protected:
  /// Two tensor files: "a" and "b" in the first, "c" in the second.
  static FolderContent content(int64_t step) {
    FolderContent content{step, {}, {{"tokens", 123}}, {{"recipe.yaml", "run: {}\n"}}};
    const auto first = static_cast<float>(step);
    content.tensors.push_back(counting_tensor("a", Shape{2, 3}, first));
    content.tensors.push_back(counting_tensor("b", Shape{}, first + 100));
    content.tensors.push_back(counting_tensor("c", Shape{4, 3, 2}, first + 200));
    return content;
  }
  fs::path write(int64_t step) const {
    const fs::path path = folder_ / step_folder_name(step);
    write_checkpoint_folder(path, content(step), 2, 40);
    return path;
  }
  static std::string damage_in(const fs::path& path) {
    return fault_of<IntegrityError>([&] { Reader(path).verify_all(); });
  }
  static std::vector<float> read(const Reader& reader, const std::string& name,
                                 const Shard& shard) {
    const Shape local = shard.local_shape(reader.find(name)->shape);
    std::vector<float> values(static_cast<size_t>(local.num_elements()), -1);
    reader.read(name, shard, values.data());
    return values;
  }
};

TEST_F(Checkpoint, says_that_it_is_at_work_while_it_checks_and_reads) {
  std::atomic<int> heartbeats = 0;
  const fs::path newest = write(7);
  const AtWork at_work = [&] { ++heartbeats; };
  const auto found = find_newest(folder_, true, at_work);
  EXPECT_EQ(found->folder(), newest);
  EXPECT_GE(heartbeats.exchange(0), 3);  // two files of tensors and a text
  read(*found, "c", Shard::whole(Shape{4, 3, 2}));
  EXPECT_EQ(heartbeats.exchange(0), 1);  // itself: its file has been checked
  const Reader reader(newest, at_work);
  read(reader, "c", Shard::whole(Shape{4, 3, 2}));
  EXPECT_GE(heartbeats, 2);  // its file's check, and itself
}

TEST_F(Checkpoint, several_threads_read_at_once_and_each_file_is_hashed_once) {
  constexpr int kThreads = 4;
  const fs::path path = write(7);
  std::atomic<int> heartbeats = 0;
  const AtWork slowly = [&] {
    ++heartbeats;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the others come in between
  };
  const auto read_all = [](const Reader& reader) {
    for (const TensorInfo& tensor : reader.tensors())
      read(reader, tensor.name, Shard::whole(tensor.shape));
  };
  const Reader alone(path, slowly);
  read_all(alone);
  const int hashed_and_read = heartbeats.exchange(0);
  read_all(alone);
  const int only_read = heartbeats.exchange(0);
  ASSERT_GT(hashed_and_read, only_read);
  const Reader shared(path, slowly);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([&] { read_all(shared); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(heartbeats, hashed_and_read + (kThreads - 1) * only_read);
}

TEST_F(Checkpoint, gives_back_what_was_written) {
  const Reader reader(write(7));
  reader.verify_all();
  EXPECT_EQ(reader.step(), 7);
  EXPECT_EQ(reader.state().at("tokens"), 123);
  EXPECT_EQ(reader.text("recipe.yaml"), "run: {}\n");
  EXPECT_EQ(reader.text("tokenizer.json"), std::nullopt);
  EXPECT_EQ(reader.text_names(), std::vector<std::string>{"recipe.yaml"});
  ASSERT_EQ(reader.tensors().size(), 3U);
  EXPECT_EQ(reader.find("c")->shape, (Shape{4, 3, 2}));
  EXPECT_EQ(reader.find("d"), nullptr);
  EXPECT_EQ(read(reader, "a", Shard::whole(Shape{2, 3})),
            (std::vector<float>{7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(read(reader, "b", Shard{}), (std::vector<float>{107}));
  EXPECT_TRUE(fs::exists(reader.folder() / "state-00002-of-00002.safetensors"));
}

/// Writes `manifest` with a COMMIT that vouches for it.
void put_manifest(const fs::path& folder, const Manifest& manifest) {
  const std::string text = manifest.to_text();
  write_file_durable(folder / kManifestName, text);
  write_file_durable(folder / kCommitName, sha256(std::as_bytes(std::span(text))) + "\n");
}

/// The folder as format version 1 has it: SHA-256 of files, of pieces only where there are several.
void make_version_1(const fs::path& folder) {
  Manifest manifest = Manifest::parse(read_file(folder / kManifestName), folder / kManifestName);
  manifest.version = 1;
  for (FileRecord& file : manifest.files) {
    const std::string content = read_file(folder / file.name);
    file.hash = sha256(std::as_bytes(std::span(content)));
  }
  for (TensorRecord& tensor : manifest.tensors)
    for (PieceRecord& piece : tensor.pieces) piece.hash.clear();
  put_manifest(folder, manifest);
}

TEST_F(Checkpoint, format_version_1_is_read_and_guarded_as_ever) {
  const fs::path path = write(3);
  make_version_1(path);
  EXPECT_THAT(read_file(path / kManifestName), HasSubstr("\"format_version\": 1"));
  const Reader reader(path);
  reader.verify_all();
  EXPECT_EQ(reader.text("recipe.yaml"), "run: {}\n");
  EXPECT_EQ(read(reader, "a", Shard::whole(Shape{2, 3})), (std::vector<float>{3, 4, 5, 6, 7, 8}));
  const fs::path tensors = path / "state-00001-of-00002.safetensors";
  flip(tensors, static_cast<int64_t>(fs::file_size(tensors)) - 1);
  EXPECT_THAT(damage_in(path), HasSubstr("tensor b is damaged"));
  flip(path / "recipe.yaml", 0);
  EXPECT_THAT(fault_of<IntegrityError>([&] { (void)Reader(path).text("recipe.yaml"); }),
              HasSubstr("the file is damaged"));
}

TEST_F(Checkpoint, any_part_along_any_dimension_is_read) {
  const Reader reader(write(0));
  // Element [i][j][k] of c is 200 + 6 i + 2 j + k.
  EXPECT_EQ(read(reader, "c", {0, 1, 2}),
            (std::vector<float>{206, 207, 208, 209, 210, 211, 212, 213, 214, 215, 216, 217}));
  EXPECT_EQ(read(reader, "c", {1, 2, 1}),
            (std::vector<float>{204, 205, 210, 211, 216, 217, 222, 223}));
  EXPECT_EQ(read(reader, "c", {2, 1, 1}),
            (std::vector<float>{201, 203, 205, 207, 209, 211, 213, 215, 217, 219, 221, 223}));
  EXPECT_TRUE(read(reader, "c", {0, 2, 0}).empty());
}

/// The tensor x [2, 4] = 0..7 in two pieces along dimension 1, each in a file of its own.
fs::path write_in_pieces(const fs::path& folder) {
  fs::create_directories(folder);
  const std::vector<std::vector<float>> parts = {{0, 4}, {1, 2, 3, 5, 6, 7}};
  Manifest manifest;
  manifest.state = nlohmann::json::object();
  manifest.tensors.push_back({"x", DType::f32, Shape{2, 4}, std::string(64, '0'), {}});
  int64_t begin = 0;
  for (const std::vector<float>& part : parts) {
    const std::string name = fmt::format("rank-{}.safetensors", begin);
    const auto width = static_cast<int64_t>(part.size()) / 2;
    const TensorContent tensor{"x", DType::f32, Shape{2, width}, [&](TensorContent::Sink sink) {
                                 sink(std::as_bytes(std::span(part)));
                               }};
    const WrittenFile file = write_safetensors(folder / name, {&tensor, 1});
    manifest.files.push_back({name, file.bytes, file.hash});
    manifest.tensors[0].pieces.push_back({name, 1, begin, width, file.tensors.at("x").hash});
    begin += width;
  }
  put_manifest(folder, manifest);
  return folder;
}

TEST_F(Checkpoint, a_piece_has_the_hash_that_its_version_wants) {
  const auto fault_without = [&](const fs::path& folder, int64_t version) {
    Manifest manifest = Manifest::parse(read_file(folder / kManifestName), folder / kManifestName);
    manifest.version = version;
    for (FileRecord& file : manifest.files)
      if (version == 1) file.hash = std::string(64, '0');
    for (TensorRecord& tensor : manifest.tensors)
      for (PieceRecord& piece : tensor.pieces) piece.hash.clear();
    return fault_of<IntegrityError>([&] { Manifest::parse(manifest.to_text(), "manifest"); });
  };
  EXPECT_THAT(fault_without(write(3), 2), HasSubstr("tensor a: a piece without its xxh3_128"));
  const fs::path pieces = write_in_pieces(folder_ / "pieces");
  EXPECT_THAT(fault_without(pieces, 2), HasSubstr("tensor x: a piece without its xxh3_128"));
  EXPECT_THAT(fault_without(pieces, 1), HasSubstr("tensor x: a piece without its sha256"));
}

TEST_F(Checkpoint, pieces_of_several_ranks_are_one_tensor) {
  const Reader reader(write_in_pieces(folder_ / "pieces"));
  EXPECT_EQ(read(reader, "x", Shard::whole(Shape{2, 4})),
            (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(read(reader, "x", {1, 2, 2}), (std::vector<float>{2, 3, 6, 7}));
  EXPECT_EQ(read(reader, "x", {1, 0, 2}), (std::vector<float>{0, 1, 4, 5}));
}

TEST_F(Checkpoint, every_flipped_byte_is_refused_and_named) {
  const fs::path path = write(1);
  for (const auto& entry : fs::directory_iterator(path)) {
    const fs::path file = entry.path();
    const std::string name = file.filename().string();
    const std::string original = read_file(file);
    // One hash guards all of the manifest: every fifth byte is enough there.
    const size_t stride = name == kManifestName ? 5 : 1;
    for (size_t at = 0; at < original.size(); at += stride) {
      flip(file, static_cast<int64_t>(at));
      const std::string fault = damage_in(path);
      EXPECT_THAT(fault, HasSubstr(name)) << "byte " << at;
      put(file, original);
    }
  }
  Reader(path).verify_all();  // and the flips were undone
}

TEST_F(Checkpoint, damage_in_a_tensor_names_the_tensor) {
  const fs::path path = write(1);
  const fs::path file = path / "state-00001-of-00002.safetensors";
  const auto size = static_cast<int64_t>(fs::file_size(file));
  flip(file, size - 1);  // the last element of b: types are equal, so names decide the order
  EXPECT_THAT(damage_in(path), HasSubstr("tensor b is damaged"));
  flip(file, size - 1);
  flip(file, size - 5);
  EXPECT_THAT(damage_in(path), HasSubstr("tensor a is damaged"));
  std::vector<float> host(6);
  const Reader reader(path);
  EXPECT_THAT(fault_of<IntegrityError>([&] {
                reader.read("a", Shard::whole(Shape{2, 3}), host.data());
              }),
              HasSubstr("tensor a is damaged"));
  reader.read("c", {0, 0, 1}, host.data());  // another file: not concerned
}

TEST_F(Checkpoint, every_truncation_is_refused_and_named) {
  const fs::path path = write(1);
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string original = read_file(entry.path());
    const size_t stride = std::max<size_t>(original.size() / 64, 1);
    for (size_t size = 0; size < original.size(); size += stride) {
      put(entry.path(), original.substr(0, size));
      EXPECT_THAT(damage_in(path), HasSubstr(entry.path().filename().string())) << size;
    }
    put(entry.path(), original.substr(0, original.size() - 1));
    damage_in(path);
    put(entry.path(), original + "x");
    damage_in(path);
    put(entry.path(), original);
  }
}

TEST_F(Checkpoint, files_deleted_swapped_or_of_another_step_are_refused) {
  const fs::path path = write(1), other = write(2);
  const fs::path first = path / "state-00001-of-00002.safetensors";
  const fs::path second = path / "state-00002-of-00002.safetensors";
  const std::string one = read_file(first), two = read_file(second);
  fs::remove(second);
  EXPECT_THAT(damage_in(path), HasSubstr("missing or not a regular file; it holds tensor c"));
  fs::create_symlink(other / second.filename(), second);
  EXPECT_THAT(damage_in(path), HasSubstr("not a regular file"));
  fs::remove(second);
  put(second, read_file(other / second.filename()));
  EXPECT_THAT(damage_in(path), HasSubstr("tensor c is damaged"));
  put(first, two);
  put(second, one);
  EXPECT_THAT(damage_in(path), HasSubstr("manifest says"));
  put(first, one);
  put(second, two);
  Reader(path).verify_all();
  fs::rename(path, folder_ / step_folder_name(9));
  EXPECT_THAT(damage_in(folder_ / step_folder_name(9)), HasSubstr("is of step 1"));
}

TEST_F(Checkpoint, a_manifest_with_a_valid_hash_is_still_not_trusted) {
  const fs::path path = write(1);
  const std::string original = read_file(path / kManifestName);
  const auto fault_with = [&](const std::string& from, const std::string& to) {
    std::string text = original;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    put(path / kManifestName, text);
    put(path / kCommitName, sha256(std::as_bytes(std::span(text))) + "\n");
    return fault_of<IntegrityError>([&] { Reader reader(path); });
  };
  EXPECT_THAT(fault_with("\"format_version\": 2", "\"format_version\": 0"), HasSubstr("version 0"));
  EXPECT_THAT(fault_with("\"name\": \"recipe.yaml\"", "\"name\": \"../recipe.yaml\""),
              HasSubstr("not plain"));
  EXPECT_THAT(fault_with("\"name\": \"b\"", "\"name\": \"a\""), HasSubstr("tensor a twice"));
  EXPECT_THAT(fault_with("\"count\": 4", "\"count\": 3"), HasSubstr("do not cover"));
  EXPECT_THAT(fault_with("\"count\": 4", "\"count\": -4"), HasSubstr("do not cover"));
  EXPECT_THAT(fault_with("\"dtype\": \"f32\"", "\"dtype\": \"f31\""), HasSubstr("unknown type"));
  EXPECT_THAT(fault_with("\"step\": 1", "\"steps\": 1"), HasSubstr("step"));
}

TEST_F(Checkpoint, sizes_whose_product_overflows_are_refused) {
  const fs::path path = write(1);
  auto json = nlohmann::json::parse(read_file(path / kManifestName));
  auto& tensor = json["tensors"][0];
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{int64_t{1} << 62}, {int64_t{1} << 31, int64_t{1} << 31, 4}}) {
    tensor["shape"] = shape;
    const nlohmann::json piece{
        {"file", tensor["pieces"][0]["file"]}, {"dim", 0}, {"begin", 0}, {"count", shape[0]}};
    tensor["pieces"] = nlohmann::json::array({piece});
    const std::string text = json.dump();
    put(path / kManifestName, text);
    put(path / kCommitName, sha256(std::as_bytes(std::span(text))) + "\n");
    EXPECT_THAT(fault_of<IntegrityError>([&] { Reader reader(path); }),
                HasSubstr("impossible shape"));
  }
}

TEST_F(Checkpoint, a_tensor_may_not_be_missing_from_its_file) {
  const fs::path path = write(1);
  const fs::path manifest = path / kManifestName;
  std::string text = read_file(manifest);
  text.replace(text.find("\"name\": \"b\""), 11, "\"name\": \"q\"");
  put(manifest, text);
  put(path / kCommitName, sha256(std::as_bytes(std::span(text))) + "\n");
  float host = 0;
  const std::string fault =
      fault_of<IntegrityError>([&] { Reader(path).read("q", Shard{}, &host); });
  EXPECT_THAT(fault, HasSubstr("tensor q is not there"));
}

TEST_F(Checkpoint, a_link_among_a_runs_checkpoints_is_passed_over) {
  const fs::path elsewhere = write(9), run = folder_ / "checkpoints";
  fs::create_directory(run);
  fs::create_directory_symlink(elsewhere, run / elsewhere.filename());
  EXPECT_THAT(fault_of<IntegrityError>([&] { find_newest(run, true); }), HasSubstr("is a link"));
  const fs::path own = run / step_folder_name(4);
  write_checkpoint_folder(own, content(4), 2, 40);
  EXPECT_EQ(newest_in(run, true), own);
}

TEST_F(Checkpoint, the_digest_is_of_names_types_shapes_and_bytes) {
  const std::string zeros(64, '0'), ones(64, '1');
  StateDigest forward, backward;
  forward.add("a", DType::f32, Shape{2, 3}, zeros);
  forward.add("b", DType::bf16, Shape{}, ones);
  backward.add("b", DType::bf16, Shape{}, ones);
  backward.add("a", DType::f32, Shape{2, 3}, zeros);
  const std::string lines = "a\tf32\t2,3\t" + zeros + "\nb\tbf16\t\t" + ones + "\n";
  EXPECT_EQ(forward.finish(), sha256(std::as_bytes(std::span(lines))));
  EXPECT_EQ(backward.finish(), forward.finish());
}

TEST_F(Checkpoint, equal_states_have_equal_digests_however_they_are_cut) {
  const auto one = write_checkpoint_folder(folder_ / "one", content(3), 1, 1 << 20);
  const auto many = write_checkpoint_folder(folder_ / "many", content(3), 2, 1);
  EXPECT_EQ(one.state_sha256, many.state_sha256);
  EXPECT_EQ(Reader(folder_ / "many").state_sha256(), one.state_sha256);
  const auto other = write_checkpoint_folder(folder_ / "other", content(4), 1, 1 << 20);
  EXPECT_NE(one.state_sha256, other.state_sha256);
}

}  // namespace
}  // namespace megalith::checkpoint
