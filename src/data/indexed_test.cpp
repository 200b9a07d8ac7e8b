// SPDX-License-Identifier: Apache-2.0
#include "data/indexed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "data/test_corpus.h"

namespace megalith::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

template <typename T>
void poke(std::string& bytes, size_t offset, T value) {
  ASSERT_LE(offset + sizeof(T), bytes.size());
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
}

/// Lengths [3, 2], a document each: S = 2, D = 3, lengths at 34, offsets at 42, documents at 58.
void write_worked(const std::filesystem::path& prefix) {
  write_corpus(prefix, {{7, 8, 9}, {300, 65535}});
}

TEST(Indexed, WritesTheWorkedFileByteForByte) {
  const TemporaryFolder folder;
  write_worked(folder / "c");
  EXPECT_EQ(
      hex(read_file(folder / "c.idx")),
      "4d4d494449445800000100000000000000080200000000000000030000000000000003000000020000000000"
      "0000000000000600000000000000000000000000000001000000000000000200000000000000");
  EXPECT_EQ(hex(read_file(folder / "c.bin")), "0700080009002c01ffff");
  EXPECT_THAT(folder.names(), ElementsAre("c.bin", "c.fingerprint", "c.idx"));
}

TEST(Indexed, TokenTypeTurnsAt65500) {
  EXPECT_EQ(token_type_for(1), TokenType::u16);
  EXPECT_EQ(token_type_for(65499), TokenType::u16);
  EXPECT_EQ(token_type_for(65500), TokenType::i32);
}

TEST(Indexed, ReadsSpansAcrossDocumentsInBothWidths) {
  const TemporaryFolder folder;
  for (const TokenType type : {TokenType::u16, TokenType::i32}) {
    write_corpus(folder / "c", {counting(0, 5), {}, counting(5, 1), counting(6, 4)}, type);
    const IndexedDataset dataset(folder / "c");
    EXPECT_EQ(dataset.token_type(), type);
    ASSERT_EQ(dataset.num_tokens(), 10);
    EXPECT_EQ(dataset.num_documents(), 4);
    for (int64_t first = 0; first <= 10; ++first) {
      for (int64_t count = 0; count <= 10 - first; ++count) {
        std::vector<int32_t> ids(static_cast<size_t>(count), -1);
        dataset.read(first, ids, 10);
        EXPECT_EQ(ids, counting(static_cast<int32_t>(first), static_cast<size_t>(count)));
      }
    }
    dataset.verify(10);
  }
}

TEST(Indexed, ReadsEveryIntegerType) {
  const TemporaryFolder folder;
  const std::vector<std::pair<TokenType, std::string>> cases = {
      {TokenType::u8, std::string("\xfe\x01", 2)},
      {TokenType::i8, std::string("\x7e\x01", 2)},
      {TokenType::i16, std::string("\xfe\x00\x01\x00", 4)},
      {TokenType::i64, std::string("\xfe\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0", 16)}};
  for (const auto& [type, bin] : cases) {
    write_corpus(folder / "c", {{254, 1}});
    std::string idx = read_file(folder / "c.idx");
    poke(idx, 17, static_cast<uint8_t>(type));
    write_text(folder / "c.idx", idx);
    write_text(folder / "c.bin", bin);
    std::vector<int32_t> ids(2);
    IndexedDataset(folder / "c").read(0, ids, 255);
    EXPECT_THAT(ids, ElementsAre(type == TokenType::i8 ? 126 : 254, 1));
  }
}

TEST(Indexed, FindsTheDocumentOfEveryToken) {
  const TemporaryFolder folder;
  write_corpus(folder / "c", {{}, {1, 2, 3}, {}, {}, {4}, {5, 6}, {}});
  const IndexedDataset dataset(folder / "c");
  std::vector<int64_t> documents;
  for (int64_t t = 0; t < 6; ++t) documents.push_back(dataset.document_of(t));
  EXPECT_THAT(documents, ElementsAre(1, 1, 1, 4, 5, 5));
  std::vector<int64_t> begins;
  for (int64_t d = 0; d <= 7; ++d) begins.push_back(dataset.document_begin(d));
  EXPECT_THAT(begins, ElementsAre(0, 0, 3, 3, 3, 4, 6, 6));
}

TEST(Indexed, DocumentsMayHoldSeveralSequences) {
  const TemporaryFolder folder;
  write_indexed(folder / "c", TokenType::i32, [](IndexedWriter& writer) {
    writer.add_sequence(counting(0, 2));
    writer.add_sequence(counting(2, 3));
    writer.end_document();
    writer.add_document(counting(5, 1));
  });
  const IndexedDataset dataset(folder / "c");
  EXPECT_EQ(dataset.num_sequences(), 3);
  EXPECT_EQ(dataset.num_documents(), 2);
  EXPECT_EQ(dataset.document_begin(1), 5);
  dataset.verify(6);
}

TEST(Indexed, EmptyCorpusIsWholeAndEmpty) {
  const TemporaryFolder folder;
  write_corpus(folder / "c", {});
  const IndexedDataset dataset(folder / "c");
  EXPECT_EQ(dataset.num_tokens(), 0);
  EXPECT_EQ(dataset.num_documents(), 0);
  dataset.verify(1);
}

TEST(Indexed, IdOutsideTheVocabularyIsNamedByItsPosition) {
  const TemporaryFolder folder;
  write_corpus(folder / "c", {{1, 2}, {3, 99, 4}});
  const IndexedDataset dataset(folder / "c");
  std::vector<int32_t> ids(4);
  dataset.read(0, std::span(ids).first(3), 99);
  EXPECT_THAT(error_of([&] { dataset.read(1, ids, 99); }),
              AllOf(StartsWith("3: "), HasSubstr("c.bin"), HasSubstr("position 3")));
  EXPECT_THAT(error_of([&] { dataset.verify(99); }), HasSubstr("position 3"));
}

TEST(Indexed, NegativeIdsAreOutsideTheVocabulary) {
  const TemporaryFolder folder;
  write_corpus(folder / "c", {{1, 2}}, TokenType::i32);
  write_text(folder / "c.bin", std::string("\x01\0\0\0\xff\xff\xff\xff", 8));
  EXPECT_THAT(error_of([&] { IndexedDataset(folder / "c").verify(100); }), HasSubstr("position 1"));
}

TEST(Indexed, FileThatShrinksUnderTheReaderIsAnError) {
  const TemporaryFolder folder;
  write_corpus(folder / "c", {counting(0, 50000)});
  const IndexedDataset dataset(folder / "c");
  std::filesystem::resize_file(folder / "c.bin", 4096);
  std::vector<int32_t> ids(100);
  dataset.read(1000, ids, 65536);
  EXPECT_THAT(error_of([&] { dataset.read(2000, ids, 65536); }),
              AllOf(StartsWith("3: "), HasSubstr("c.bin")));
  std::filesystem::resize_file(folder / "c.idx", 40);
  EXPECT_THAT(error_of([&] { dataset.document_begin(0); }),
              AllOf(StartsWith("3: "), HasSubstr("c.idx")));
}

struct Damage {
  const char* name;
  std::function<void(std::string& idx, std::string& bin)> apply;
  const char* message;
};

// Each breaks one invariant of the format; these are found at opening.
const std::vector<Damage> kFoundAtOpening = {
    {"empty", [](auto& idx, auto&) { idx.clear(); }, "too few for an index header"},
    {"cut_header", [](auto& idx, auto&) { idx.resize(33); }, "too few for an index header"},
    {"magic", [](auto& idx, auto&) { poke(idx, 3, 'X'); }, "not a Megatron index"},
    {"version", [](auto& idx, auto&) { poke(idx, 9, uint64_t{2}); }, "version 2"},
    {"code_0", [](auto& idx, auto&) { poke(idx, 17, uint8_t{0}); }, "dtype code 0"},
    {"code_float64", [](auto& idx, auto&) { poke(idx, 17, uint8_t{6}); }, "dtype code 6"},
    {"code_float32", [](auto& idx, auto&) { poke(idx, 17, uint8_t{7}); }, "dtype code 7"},
    {"code_9", [](auto& idx, auto&) { poke(idx, 17, uint8_t{9}); }, "dtype code 9"},
    {"sequences_more", [](auto& idx, auto&) { poke(idx, 18, uint64_t{3}); }, "too few"},
    {"sequences_fewer", [](auto& idx, auto&) { poke(idx, 18, uint64_t{1}); }, "remain"},
    {"sequences_huge", [](auto& idx, auto&) { poke(idx, 18, ~uint64_t{0}); }, "too few"},
    {"sequences_wrap", [](auto& idx, auto&) { poke(idx, 18, (uint64_t{1} << 62) + 2); }, "too few"},
    {"documents_none", [](auto& idx, auto&) { poke(idx, 26, uint64_t{0}); }, "document indices"},
    {"documents_more", [](auto& idx, auto&) { poke(idx, 26, uint64_t{4}); }, "too few"},
    {"documents_fewer", [](auto& idx, auto&) { poke(idx, 26, uint64_t{2}); }, "remain"},
    {"documents_huge", [](auto& idx, auto&) { poke(idx, 26, ~uint64_t{0}); }, "too few"},
    {"documents_wrap", [](auto& idx, auto&) { poke(idx, 26, (uint64_t{1} << 61) + 3); }, "too few"},
    {"index_cut", [](auto& idx, auto&) { idx.resize(idx.size() - 1); }, "too few"},
    {"index_long", [](auto& idx, auto&) { idx += "x"; }, "remain"},
    {"first_document", [](auto& idx, auto&) { poke(idx, 58, int64_t{1}); }, "instead of from 0"},
    {"last_document", [](auto& idx, auto&) { poke(idx, 74, int64_t{1}); }, "instead of from 0"},
    {"first_offset", [](auto& idx, auto&) { poke(idx, 42, int64_t{2}); }, "begins at token 1"},
    {"last_offset_odd", [](auto& idx, auto&) { poke(idx, 50, int64_t{5}); }, "begins at byte 5"},
    {"last_offset_negative", [](auto& idx, auto&) { poke(idx, 50, int64_t{-6}); }, "byte -6"},
    {"last_offset_huge", [](auto& idx, auto&) { poke(idx, 50, INT64_MAX - 1); }, "begins at byte"},
    {"length_before_the_last", [](auto& idx, auto&) { poke(idx, 34, 2); },
     "begins at byte 6, but the one before has 2 tokens at 0"},
    {"last_length_more", [](auto& idx, auto&) { poke(idx, 38, 3); }, "not of one corpus"},
    {"last_length_negative", [](auto& idx, auto&) { poke(idx, 38, -1); }, "not of one corpus"},
    {"last_length_less", [](auto& idx, auto&) { poke(idx, 38, 0); }, "not of one corpus"},
    {"bin_long", [](auto&, auto& bin) { bin += "xx"; }, "not of one corpus"},
    {"bin_cut", [](auto&, auto& bin) { bin.resize(9); }, "not of one corpus"},
    {"bin_empty", [](auto&, auto& bin) { bin.clear(); }, "begins at byte 6"},
};
/// Lengths [1, 2, 1, 2, 1], a document each: lengths at 34, offsets at 54, documents at 94.
void write_five(const std::filesystem::path& prefix) {
  write_corpus(prefix, {{7}, {8, 9}, {10}, {11, 12}, {13}});
}

// In the middle of write_five, where opening does not look: what verify says of it, and what
// document_begin(2) says.
struct MiddleDamage {
  const char* name;
  std::function<void(std::string& idx)> apply;
  const char* verify;
  const char* use;
};
const std::vector<MiddleDamage> kFoundWhereUsed = {
    {"length", [](auto& idx) { poke(idx, 38, 1); }, "those before it end at 4",
     "begins at byte 6, but the one before has 1 tokens at 2"},
    {"length_negative", [](auto& idx) { poke(idx, 38, -3); }, "sequence 1 has -3 tokens",
     "sequence 1 has -3 tokens"},
    {"length_largest", [](auto& idx) { poke(idx, 38, INT32_MAX); }, "those before it end at 4294",
     "the one before has 2147483647 tokens at 2"},
    {"offset_odd", [](auto& idx) { poke(idx, 70, int64_t{7}); }, "begins at byte 7",
     "byte 7, which is no token"},
    {"offset_overlaps", [](auto& idx) { poke(idx, 70, int64_t{4}); }, "begins at byte 4",
     "begins at byte 4, but the one before has 2 tokens at 2"},
    {"offset_goes_back", [](auto& idx) { poke(idx, 70, int64_t{0}); }, "begins at byte 0",
     "begins at byte 0, but the one before has 2 tokens at 2"},
    {"offset_skips", [](auto& idx) { poke(idx, 70, int64_t{8}); }, "begins at byte 8",
     "begins at byte 8, but the one before has 2 tokens at 2"},
    {"offset_behind_the_end", [](auto& idx) { poke(idx, 70, int64_t{16}); }, "begins at byte 16",
     "byte 16, which is no token of 14 bytes"},
    {"offset_negative", [](auto& idx) { poke(idx, 70, int64_t{-2}); }, "begins at byte -2",
     "byte -2, which is no token"},
    {"offset_before", [](auto& idx) { poke(idx, 62, INT64_MIN); }, "begins at byte -9223",
     "the one before has 2 tokens at -9223"},
    {"document_goes_back", [](auto& idx) { poke(idx, 110, int64_t{0}); }, "index 2 is 0 after 1",
     "document 2 begins at sequence 0 of 5, after 1 and before 3"},
    {"document_skips", [](auto& idx) { poke(idx, 110, int64_t{4}); }, "index 3 is 3 after 4",
     "document 2 begins at sequence 4 of 5, after 1 and before 3"},
    {"document_behind_the_end", [](auto& idx) { poke(idx, 110, INT64_MAX); }, "index 3 is 3 after",
     "of 5, after 1 and before 3"},
    {"document_negative", [](auto& idx) { poke(idx, 110, int64_t{-1}); }, "is -1 after 1",
     "begins at sequence -1 of 5"},
};

std::string open_damaged(const Damage& damage, const TemporaryFolder& folder) {
  write_worked(folder / "c");
  std::string idx = read_file(folder / "c.idx");
  std::string bin = read_file(folder / "c.bin");
  damage.apply(idx, bin);
  write_text(folder / "c.idx", idx);
  write_text(folder / "c.bin", bin);
  return error_of([&] { const IndexedDataset dataset(folder / "c"); });
}

TEST(Indexed, OpeningFindsEveryDamageOfHeaderSizesAndEnds) {
  const TemporaryFolder folder;
  for (const Damage& damage : kFoundAtOpening) {
    EXPECT_THAT(open_damaged(damage, folder),
                AllOf(StartsWith("3: "), HasSubstr("/c."), HasSubstr(damage.message)))
        << damage.name;
  }
}

TEST(Indexed, DamageInsideIsFoundByVerifyAndWhereItIsUsed) {
  const TemporaryFolder folder;
  for (const MiddleDamage& damage : kFoundWhereUsed) {
    write_five(folder / "c");
    std::string idx = read_file(folder / "c.idx");
    damage.apply(idx);
    write_text(folder / "c.idx", idx);
    const IndexedDataset dataset(folder / "c");
    EXPECT_THAT(error_of([&] { dataset.verify_index(); }),
                AllOf(StartsWith("3: "), HasSubstr("c.idx"), HasSubstr(damage.verify)))
        << damage.name;
    EXPECT_THAT(error_of([&] { dataset.document_begin(2); }),
                AllOf(StartsWith("3: "), HasSubstr("c.idx"), HasSubstr(damage.use)))
        << damage.name;
    EXPECT_EQ(dataset.document_begin(4), 6) << damage.name;  // none of its neighbours
  }
}

TEST(Indexed, EveryFlippedBitOfTheIndexIsFound) {
  const TemporaryFolder folder;
  write_corpus(folder / "c", {{7}, {8, 9}, {10}});  // document indices 0 1 2 3 at 70, 78, 86, 94
  const std::string whole = read_file(folder / "c.idx");
  ASSERT_EQ(whole.size(), 102u);
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    // Where documents end inside is free: 0 0 2 3 and 0 1 3 3 are good indices too.
    if (bit == 8 * 78 || bit == 8 * 86) continue;
    std::string idx = whole;
    idx[bit / 8] = static_cast<char>(idx[bit / 8] ^ (1 << (bit % 8)));
    write_text(folder / "c.idx", idx);
    EXPECT_THAT(error_of([&] { IndexedDataset(folder / "c").verify_index(); }), StartsWith("3: "))
        << "bit " << bit % 8 << " of byte " << bit / 8;
  }
}

TEST(Indexed, ModesOfMultimodalSetsAreAllowedBehindTheArrays) {
  const TemporaryFolder folder;
  write_worked(folder / "c");
  write_text(folder / "c.idx", read_file(folder / "c.idx") + std::string(2, '\0'));
  IndexedDataset(folder / "c").verify(65536);
}

TEST(Indexed, MissingFilesAreTheUsersAndNamed) {
  const TemporaryFolder folder;
  write_worked(folder / "c");
  std::filesystem::remove(folder / "c.bin");
  EXPECT_THAT(error_of([&] { IndexedDataset dataset(folder / "c"); }),
              AllOf(StartsWith("2: "), HasSubstr("c.bin")));
  EXPECT_THAT(error_of([&] { IndexedDataset dataset(folder.path()); }), StartsWith("2: "));
}

TEST(Indexed, PrefixMayHoldDots) {
  const TemporaryFolder folder;
  write_worked(folder / "v1.2");
  EXPECT_THAT(folder.names(), ElementsAre("v1.2.bin", "v1.2.fingerprint", "v1.2.idx"));
  EXPECT_EQ(IndexedDataset(folder / "v1.2").num_tokens(), 5);
}

TEST(Indexed, FailedWriteLeavesTheOldCorpusAndNoRemains) {
  const TemporaryFolder folder;
  write_worked(folder / "c");
  const std::string idx = read_file(folder / "c.idx");
  const std::string bin = read_file(folder / "c.bin");
  EXPECT_THAT(error_of([&] {
                write_indexed(folder / "c", TokenType::u16, [](IndexedWriter& writer) {
                  writer.add_document(counting(0, 1000000 % 65536));
                  throw UserError("planted");
                });
              }),
              HasSubstr("planted"));
  EXPECT_EQ(read_file(folder / "c.idx"), idx);
  EXPECT_EQ(read_file(folder / "c.bin"), bin);
  EXPECT_THAT(folder.names(), ElementsAre("c.bin", "c.fingerprint", "c.idx"));
}

TEST(Indexed, IdsThatDoNotFitTheTypeAreRefused) {
  const TemporaryFolder folder;
  EXPECT_THROW(write_corpus(folder / "c", {{65536}}), InternalError);
  EXPECT_THROW(write_corpus(folder / "c", {{-1}}, TokenType::i32), InternalError);
  EXPECT_TRUE(folder.names().empty());
}

TEST(Indexed, ManyDocumentsPassThroughTheSpillUnharmed) {
  const TemporaryFolder folder;
  constexpr int64_t kDocuments = 400000;  // lengths 0, 1, 2 in turn: several spill buffers
  write_indexed(folder / "c", TokenType::u16, [](IndexedWriter& writer) {
    for (int64_t d = 0; d < kDocuments; ++d) {
      writer.add_document(counting(static_cast<int32_t>(d % 1000), static_cast<size_t>(d % 3)));
    }
  });
  const IndexedDataset dataset(folder / "c");
  dataset.verify(1002);
  EXPECT_EQ(dataset.num_documents(), kDocuments);
  EXPECT_EQ(dataset.num_tokens(), (kDocuments / 3) * 3);  // 400000 = 3 * 133333 + 1, the last empty
  EXPECT_EQ(dataset.document_begin(300000), 300000);
}

TEST(Indexed, FingerprintTellsCorporaApartAndNotWhereTheyLie) {
  const TemporaryFolder folder;
  write_worked(folder / "a");
  write_worked(folder / "b");
  write_corpus(folder / "c", {{7, 8, 9}, {300, 65534}});
  write_corpus(folder / "d", {{7, 8}, {9, 300, 65535}});
  const auto print = [&](const char* name) { return IndexedDataset(folder / name).fingerprint(); };
  EXPECT_TRUE(is_of_all_bytes(print("a")));
  EXPECT_EQ(print("a"), print("b"));
  EXPECT_NE(print("a"), print("c"));
  EXPECT_NE(print("a"), print("d"));
}

TEST(Fingerprint, CountsEveryByte) {
  const TemporaryFolder folder;
  write_corpus(folder / "c", {counting(0, 50'000), counting(0, 50'000), counting(0, 50'000)});
  for (const char* part : {"c.bin", "c.idx"}) {
    const std::string before = IndexedDataset(folder / "c").fingerprint();
    const std::string content = read_file(folder / part);
    // In .idx a byte that nobody reads at opening: of a sequence's length.
    const size_t at = part == std::string("c.bin") ? content.size() / 2 : IndexHeader::kBytes + 2;
    std::string changed = content;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    write_text(folder / part, changed);
    EXPECT_NE(IndexedDataset(folder / "c").fingerprint(), before) << part;
    write_text(folder / part, content);
    EXPECT_EQ(IndexedDataset(folder / "c").fingerprint(), before) << part;
  }
}

TEST(Fingerprint, IsTheSamePackedOrWorkedOut) {
  const TemporaryFolder folder;
  for (const TokenType type : {TokenType::u16, TokenType::i32}) {
    write_corpus(folder / "c", {counting(0, 5'000), {}, counting(0, 60'000)}, type);
    const std::string packed = read_file(fingerprint_path(folder / "c"));
    std::filesystem::remove(fingerprint_path(folder / "c"));
    const IndexedDataset corpus(folder / "c");
    EXPECT_EQ(packed.find(corpus.fingerprint()), packed.size() - 1 - corpus.fingerprint().size());
    EXPECT_EQ(read_file(fingerprint_path(folder / "c")), packed);  // kept at the first use
  }
}

TEST(Fingerprint, WhatIsKeptCountsForTheSizesAndTimesItIsOf) {
  const TemporaryFolder folder;
  write_worked(folder / "c");
  const auto path = fingerprint_path(folder / "c");
  const std::string kept = read_file(path), real = IndexedDataset(folder / "c").fingerprint();
  const std::string other = "all-" + std::string(32, '0');
  std::string planted = kept;
  planted.replace(kept.find("all-"), other.size(), other);
  write_text(path, planted);
  EXPECT_EQ(IndexedDataset(folder / "c").fingerprint(), other);  // so nothing was read
  // Another time, another size, another version, no digest: the bytes decide.
  const auto bin = bin_path(folder / "c");
  std::filesystem::last_write_time(
      bin, std::filesystem::last_write_time(bin) + std::chrono::nanoseconds(1));
  EXPECT_EQ(IndexedDataset(folder / "c").fingerprint(), real);
  const std::string now = read_file(path);
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"fingerprint 1", "fingerprint 2"},
                                                        {"\nbin ", "\nbin 1"},
                                                        {"all-", "all "},
                                                        {"\n", ""}}) {
    std::string wrong = planted = now;
    wrong.replace(now.find("all-"), other.size(), other);
    wrong.replace(wrong.find(from), from.size(), to);
    write_text(path, wrong);
    EXPECT_EQ(IndexedDataset(folder / "c").fingerprint(), real) << wrong;
  }
}

TEST(Fingerprint, IsWorkedOutEachTimeWhereItCannotBeKept) {
  const TemporaryFolder folder;
  write_worked(folder / "c");
  const std::string real = IndexedDataset(folder / "c").fingerprint();
  std::filesystem::remove(fingerprint_path(folder / "c"));
  std::filesystem::create_directory(fingerprint_path(folder / "c"));
  int64_t pieces = 0;
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(IndexedDataset(folder / "c").fingerprint([&] { ++pieces; }), real);
  EXPECT_EQ(pieces, 4);
}

}  // namespace
}  // namespace megalith::data
