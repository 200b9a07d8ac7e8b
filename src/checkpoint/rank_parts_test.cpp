// SPDX-License-Identifier: Apache-2.0
// One folder written by several ranks: the same digests as one rank's, whatever the cut; any part
// reads back; no rank sends more than it must at once; faults end all ranks and leave no folder.
#include "checkpoint/rank_parts.h"

#include <chrono>
#include <thread>

#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/cut_digest.h"
#include "checkpoint/reader.h"
#include "checkpoint/saver.h"
#include "comm/backends.h"

namespace megalith::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// Rank `rank`'s part of tensor `name`: counting values of the whole, cut out.
TensorContent piece_of(const std::string& name, const Shape& whole, const Shard& shard, float first,
                       size_t sink_bytes) {
  std::vector<float> values;
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < shard.dim; ++d) outer *= whole[d];
  for (int d = shard.dim + 1; d < whole.num_dims(); ++d) inner *= whole[d];
  for (int64_t o = 0; o < outer; ++o) {
    for (const ShardRun& run : shard.runs()) {
      for (int64_t i = run.begin * inner; i < (run.begin + run.count) * inner; ++i)
        values.push_back(first + static_cast<float>(o * whole[shard.dim] * inner + i));
    }
  }
  return {name, DType::f32, shard.local_shape(whole),
          [values = std::move(values), sink_bytes](TensorContent::Sink sink) {
            auto bytes = std::as_bytes(std::span(values));
            while (!bytes.empty()) {
              sink(bytes.first(std::min(sink_bytes, bytes.size())));
              bytes = bytes.subspan(std::min(sink_bytes, bytes.size()));
            }
          },
          Cut{whole, shard}};
}

const Shape kRows{12, 5}, kColumns{7, 12}, kMiddle{3, 12, 2}, kAlone{6};

/// The state as rank `rank` of `ranks` holds it: cut along rows, columns, a middle dimension, and
/// one tensor of the last rank alone.
FolderContent content_of(int rank, int ranks, size_t sink_bytes) {
  FolderContent content{4, {}, {{"step", 4}}, {{"recipe.yaml", "x"}}};
  content.tensors = {
      piece_of("rows", kRows, Shard::part(kRows, 0, rank, ranks), 0, sink_bytes),
      piece_of("columns", kColumns, Shard::part(kColumns, 1, rank, ranks), 100, sink_bytes),
      piece_of("middle", kMiddle, Shard::part(kMiddle, 1, rank, ranks), 200, sink_bytes)};
  if (rank == ranks - 1)
    content.tensors.push_back(piece_of("alone", kAlone, Shard::whole(kAlone), 300, sink_bytes));
  return content;
}

void expect_part(const Reader& reader, const std::string& name, const Shape& whole,
                 const Shard& shard, float first) {
  std::vector<std::byte> expected;
  piece_of(name, whole, shard, first, 1000).write([&](std::span<const std::byte> bytes) {
    expected.insert(expected.end(), bytes.begin(), bytes.end());
  });
  std::vector<std::byte> actual(expected.size());
  reader.read(name, shard, actual.data());
  EXPECT_EQ(actual, expected) << name << " from " << shard.begin << ", " << shard.count;
}
void expect_reads(const Reader& reader, const Shard& rows, const Shard& columns) {
  expect_part(reader, "rows", kRows, rows, 0);
  expect_part(reader, "columns", kColumns, columns, 100);
}

class RankPartsTest : public CheckpointTest {
 protected:
  FolderSummary write(const std::string& name, int ranks, size_t sink_bytes = 1 << 20) {
    std::vector<FolderSummary> summaries(static_cast<size_t>(ranks));
    comm::run_ranks(ranks,
                    [&](comm::Communicator& world) {
                      summaries[static_cast<size_t>(world.rank())] = write_checkpoint_folder(
                          folder_ / name, content_of(world.rank(), ranks, sink_bytes), 2, 100,
                          &world);
                    },
                    {20});
    for (const FolderSummary& summary : summaries) {
      EXPECT_EQ(summary.state_sha256, summaries[0].state_sha256);
      EXPECT_EQ(summary.bytes, summaries[0].bytes);
    }
    return summaries[0];
  }
};

TEST_F(RankPartsTest, AnyNumberOfRanksGivesOneDigest) {
  const FolderSummary alone = write("one", 1);
  for (const int ranks : {2, 3, 4, 6, 12}) {
    for (const size_t sink_bytes : {4, 12, 1000}) {
      const std::string name = fmt::format("r{}-{}", ranks, sink_bytes);
      EXPECT_EQ(write(name, ranks, sink_bytes).state_sha256, alone.state_sha256) << name;
      const Reader reader(folder_ / name);
      reader.verify_all();
      EXPECT_EQ(reader.tensors().size(), 4U);
    }
  }
}

TEST_F(RankPartsTest, OtherValuesAreAnotherDigest) {
  const FolderSummary alone = write("one", 1);
  FolderContent content = content_of(0, 1, 1000);
  content.tensors[1] = piece_of("columns", kColumns, Shard::whole(kColumns), 101, 1000);
  EXPECT_NE(write_checkpoint_folder(folder_ / "other", content, 1).state_sha256,
            alone.state_sha256);
}

TEST_F(RankPartsTest, AnyCutReadsBackUnderAnyOther) {
  write("six", 6);
  const Reader reader(folder_ / "six");
  for (const int parts : {1, 2, 3, 4}) {
    for (int part = 0; part < parts; ++part) {
      for (const auto& [name, shape, dim, first] :
           {std::tuple{"rows", kRows, 0, 0.0F}, std::tuple{"columns", kColumns, 1, 100.0F},
            std::tuple{"middle", kMiddle, 1, 200.0F}}) {
        expect_part(reader, name, shape, Shard::part(shape, dim, part, parts), first);
      }
    }
  }
}

/// Part `part` of 4 of 12 indices in two groups of 4 and 2, two parts to a group.
Shard grouped(int dim, int part) {
  const int64_t begin = part / 2 * 6, in_group = part % 2;
  return {dim, begin + 2 * in_group, 2, begin + 4 + in_group, 1};
}

TEST_F(RankPartsTest, PiecesOfTwoRangesAreOneTensor) {
  const FolderSummary alone = write("one", 1);
  for (const size_t sink_bytes : {4, 12, 1000}) {
    const fs::path folder = folder_ / fmt::format("grouped-{}", sink_bytes);
    FolderSummary summary;
    comm::run_ranks(4, [&](comm::Communicator& world) {
      const int rank = world.rank();
      FolderContent content = content_of(rank, 4, sink_bytes);
      content.tensors[0] = piece_of("rows", kRows, grouped(0, rank), 0, sink_bytes);
      content.tensors[1] = piece_of("columns", kColumns, grouped(1, rank), 100, sink_bytes);
      const FolderSummary mine = write_checkpoint_folder(folder, content, 2, 100, &world);
      if (rank == 0) summary = mine;
    });
    EXPECT_EQ(summary.state_sha256, alone.state_sha256);
    EXPECT_THAT(read_file(folder / kManifestName), HasSubstr("\"format_version\": 3"));
    const Reader reader(folder);
    reader.verify_all();
    for (int part = 0; part < 4; ++part) expect_reads(reader, grouped(0, part), grouped(1, part));
    for (const int parts : {1, 2, 3, 4}) {
      for (int part = 0; part < parts; ++part) {
        expect_reads(reader, Shard::part(kRows, 0, part, parts),
                     Shard::part(kColumns, 1, part, parts));
      }
    }
  }
  // What needs no second range is written as before, and read by it.
  EXPECT_THAT(read_file(folder_ / "one" / kManifestName), HasSubstr("\"format_version\": 2"));
  write("four", 4);
  const Reader reader(folder_ / "four");
  for (int part = 0; part < 4; ++part) expect_reads(reader, grouped(0, part), grouped(1, part));
}

TEST_F(RankPartsTest, TwoRangesBelongToTheVersionThatHasThem) {
  comm::run_ranks(4, [&](comm::Communicator& world) {
    FolderContent content = content_of(world.rank(), 4, 1000);
    content.tensors[0] = piece_of("rows", kRows, grouped(0, world.rank()), 0, 1000);
    write_checkpoint_folder(folder_ / "grouped", content, 2, 100, &world);
  });
  const std::string text = read_file(folder_ / "grouped" / kManifestName);
  const auto fault_with = [&](const std::string& from, const std::string& to) -> std::string {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    try {
      Manifest::parse(changed, "manifest.json");
    } catch (const IntegrityError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(fault_with("", ""), "");
  EXPECT_THAT(fault_with("\"format_version\": 3", "\"format_version\": 2"),
              HasSubstr("two ranges"));
  EXPECT_THAT(fault_with("\"second_count\": 1", "\"second_count\": 2"),
              HasSubstr("do not cover it"));
  EXPECT_THAT(fault_with("\"second_begin\": 5", "\"second_begin\": 4"),
              HasSubstr("do not cover it"));
  EXPECT_THAT(fault_with("\"second_begin\": 5", "\"second_begin\": -5"),
              HasSubstr("do not cover it"));
}

// Larger than a block, so that pieces travel in several messages and rows straddle them.
TEST_F(RankPartsTest, TensorsBeyondABlockStreamThrough) {
  const Shape whole{3, 4 * kDigestBlockBytes / 16};
  std::string expected;
  for (const int ranks : {1, 2, 4}) {
    std::string digest;
    comm::run_ranks(ranks,
                    [&](comm::Communicator& world) {
                      FolderContent content{1, {}, {}, {}};
                      content.tensors = {piece_of(
                          "w", whole, Shard::part(whole, 1, world.rank(), ranks), 0, 1000003)};
                      const auto summary =
                          write_checkpoint_folder(folder_ / fmt::format("big{}", ranks), content, 1,
                                                  kTensorFileBytes, &world);
                      if (world.rank() == 0) digest = summary.state_sha256;
                    },
                    {20});
    if (ranks == 1) expected = digest;
    EXPECT_EQ(digest, expected) << ranks;
  }
}

// Rank 0 hashes, and takes longer for its own piece than the others wait for one that is silent.
TEST_F(RankPartsTest, HashingATensorThatIsCutSendsHeartbeats) {
  constexpr int kBlocks = 25;  // of a fifth of a second, together longer than the deadline of 3 s
  const Shape whole{2 * kBlocks, kDigestBlockBytes / 4};
  // In memory where there is such a place: an fsync of a disk sends no heartbeat.
  fs::path folder = folder_;
  if (fs::is_directory("/dev/shm"))
    folder = fmt::format("/dev/shm/megalith-heartbeats-{}", getpid());
  fs::create_directories(folder);
  const auto body = [&](comm::Communicator& world) {
    FolderContent content{1, {}, {}, {}};
    content.tensors = {piece_of("w", whole, Shard::part(whole, 0, world.rank(), 2), 0,
                                static_cast<size_t>(kDigestBlockBytes))};
    const auto write = content.tensors[0].write;
    int reads = 0;
    if (world.rank() == 0) {
      content.tensors[0].write = [&](TensorContent::Sink sink) {
        const bool for_hash = reads++ > 0;
        write([&](std::span<const std::byte> block) {
          if (for_hash) std::this_thread::sleep_for(std::chrono::milliseconds(200));
          sink(block);
        });
      };
    }
    write_checkpoint_folder(folder / "slow", content, 1, kTensorFileBytes, &world);
  };
  EXPECT_NO_THROW(comm::run_ranks(2, body, {3}));
  fs::remove_all(folder);
}

TEST_F(RankPartsTest, DamageInAPieceNamesTheTensor) {
  write("three", 3);
  for (const auto& entry : fs::directory_iterator(folder_ / "three")) {
    if (entry.path().extension() != ".safetensors") continue;
    flip(entry.path(), static_cast<int64_t>(fs::file_size(entry.path())) - 1);
    const Reader reader(folder_ / "three");
    EXPECT_THAT(fault_of<IntegrityError>([&] { reader.verify_all(); }), HasSubstr("is damaged"));
    flip(entry.path(), static_cast<int64_t>(fs::file_size(entry.path())) - 1);
  }
}

TEST_F(RankPartsTest, AFailureOfOneRankLeavesNoFolder) {
  for (const int culprit : {0, 1, 2}) {
    EXPECT_THROW(comm::run_ranks(3,
                                 [&](comm::Communicator& world) {
                                   FolderContent content = content_of(world.rank(), 3, 1000);
                                   if (world.rank() == culprit) {
                                     content.tensors[0].write = [](TensorContent::Sink) {
                                       throw SystemError("disk on fire");
                                     };
                                   }
                                   write_checkpoint_folder(folder_ / "none", content, 1, 100,
                                                           &world);
                                 },
                                 {20}),
                 SystemError);
    EXPECT_FALSE(fs::exists(folder_ / "none"));
  }
}

TEST_F(RankPartsTest, GapsAndOverlapsAreMistakes) {
  for (const int64_t begin : {0, 2}) {
    std::string fault;
    try {
      comm::run_ranks(
          2,
          [&](comm::Communicator& world) {
            FolderContent content{1, {}, {}, {}};
            const Shard shard = world.rank() == 0 ? Shard{0, 0, 1} : Shard{0, begin, 3 - begin};
            content.tensors = {piece_of("w", Shape{3, 2}, shard, 0, 1000)};
            write_checkpoint_folder(folder_ / "none", content, 1, 100, &world);
          },
          {20});
    } catch (const Error& error) {
      fault = error.what();
    }
    EXPECT_THAT(fault, HasSubstr("tensor w: its pieces overlap or leave gaps at 1"));
  }
}

TEST_F(RankPartsTest, ranks_that_do_not_share_a_folder_are_refused_at_the_start) {
  fs::create_directories(folder_ / "a");
  fs::create_directories(folder_ / "b");
  const auto both = [&](const char* of_rank_1) {
    comm::run_ranks(2, [&](comm::Communicator& world) {
      const Saver saver(folder_ / (world.rank() == 0 ? "a" : of_rank_1), {}, &world);
    });
  };
  both("a");
  EXPECT_THAT([&] { both("b"); },
              ::testing::ThrowsMessage<UserError>(HasSubstr("rank 1 does not see")));
  EXPECT_TRUE(fs::is_empty(folder_ / "a"));
}

}  // namespace
}  // namespace megalith::checkpoint
