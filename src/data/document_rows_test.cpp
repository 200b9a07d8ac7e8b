// SPDX-License-Identifier: Apache-2.0
#include "data/document_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "data/host_batch.h"
#include "data/test_corpus.h"
#include "math/random.h"

namespace megalith::data {
namespace {

using testing::ElementsAre;

struct Said {
  int64_t begin, end;
  bool followed;
  bool operator==(const Said&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Said& said) {
  return out << said.begin << " to " << said.end << (said.followed ? " followed" : "");
}
std::vector<Said> said(const std::vector<Piece>& row) {
  std::vector<Said> list;
  for (const Piece& piece : row)
    list.push_back({piece.tokens.begin, piece.tokens.end, piece.followed});
  return list;
}

/// Documents of these lengths, one behind another.
std::vector<Piece> documents(const std::vector<int64_t>& lengths) {
  std::vector<Piece> parts;
  int64_t begin = 0;
  for (const int64_t length : lengths) {
    parts.push_back({{begin, begin + length}, false});
    begin += length;
  }
  return parts;
}

TEST(PackedRows, TheLongestGoFirstAndToTheFirstRowWithRoom) {
  // 8 to row 0, 7 to row 1, 3 to row 1 and 2 to row 0.
  const auto rows = packed_rows(documents({2, 7, 8, 3}), 2, 10);
  EXPECT_THAT(said(rows[0]), ElementsAre(Said{0, 2, false}, Said{9, 17, false}));
  EXPECT_THAT(said(rows[1]), ElementsAre(Said{2, 9, false}, Said{17, 20, false}));
}

TEST(PackedRows, WhatFitsNowhereIsCutIntoTheRowsWithMostRoom) {
  // 7, 7 and 7 leave 3 of each row; 5 and 4 fit in none.
  const auto rows = packed_rows(documents({7, 5, 7, 4, 7}), 3, 10);
  EXPECT_THAT(said(rows[0]), ElementsAre(Said{0, 7, false}, Said{7, 10, true}));
  EXPECT_THAT(said(rows[1]),
              ElementsAre(Said{10, 12, false}, Said{12, 19, false}, Said{22, 23, false}));
  EXPECT_THAT(said(rows[2]), ElementsAre(Said{19, 22, true}, Said{23, 30, false}));
}

TEST(PackedRows, LongDocumentsAreRunsOfWholeRows) {
  const auto rows = packed_rows(documents({23, 7}), 3, 10);
  EXPECT_THAT(said(rows[0]), ElementsAre(Said{0, 10, true}));
  EXPECT_THAT(said(rows[1]), ElementsAre(Said{10, 20, true}));
  EXPECT_THAT(said(rows[2]), ElementsAre(Said{20, 23, false}, Said{23, 30, false}));
}

/// Of 100 documents of 1 to 2 mean - 1 tokens, in rows of 512, those that are not one sequence.
double cut_documents(int64_t mean) {
  constexpr int64_t kLength = 512, kGroups = 20, kTokens = kGroupRows * kLength;
  int64_t whole = 0, documents = 0, rest = 0;
  for (int64_t group = 0; group < kGroups; ++group) {
    std::vector<Piece> parts;
    std::set<std::pair<int64_t, int64_t>> uncut;
    for (int64_t begin = 0, end = 0; begin < kTokens; begin = end) {
      const bool is_new = rest == 0;
      if (is_new) rest = 1 + philox(9, static_cast<uint64_t>(documents++), 0)[0] % (2 * mean - 1);
      end = std::min(begin + rest, kTokens);
      rest -= end - begin;
      parts.push_back({{begin, end}, rest > 0});
      if (is_new && rest == 0) uncut.insert({begin, end});
    }
    for (const auto& row : packed_rows(parts, kGroupRows, kLength))
      for (const Piece& piece : row)
        whole += static_cast<int64_t>(uncut.count({piece.tokens.begin, piece.tokens.end}));
  }
  return 100 * static_cast<double>(documents - whole) / static_cast<double>(documents);
}

// What docs/design/0013-natural-lengths.md says.
TEST(PackedRows, FewDocumentsAreCut) {
  EXPECT_LT(cut_documents(171), 5);  // of a third of a row
  EXPECT_LT(cut_documents(51), 1);   // of a tenth
}

/// A corpus whose documents have lengths 1 to 40, and some none.
class DocumentRowsTest : public testing::Test {
 protected:
  static constexpr int64_t kLength = 16;

  explicit DocumentRowsTest(int count = 200) {
    std::vector<std::vector<int32_t>> documents;
    int32_t number = 0;
    for (int d = 0; d < count; ++d) {
      const auto length = 1 + philox(5, static_cast<uint64_t>(d), 0)[0] % 40;
      documents.push_back(counting(number, d % 17 == 3 ? 0 : length));
      number += static_cast<int32_t>(documents.back().size());
    }
    write_corpus(folder_ / "c", documents, TokenType::i32);
    options_.sequence_length = kLength;
    options_.vocab_size = number + 1;
    options_.whole_documents = true;
    options_.shuffle = false;
  }
  Sampler sampler() const { return {{{folder_ / "c", {}}}, options_}; }

  TemporaryFolder folder_;
  SamplerOptions options_;
};

// More than two groups, the last of them not full.
TEST_F(DocumentRowsTest, AnEpochHasEveryTokenOfItsRowsOnceAndRowsAreFull) {
  const Sampler sampler = this->sampler();
  ASSERT_GT(sampler.samples_per_epoch(), 2 * kGroupRows);
  ASSERT_NE(sampler.samples_per_epoch() % kGroupRows, 0);
  const HostBatch all = make_batch(sampler, 0, sampler.samples_per_epoch(), {});
  EXPECT_EQ(all.num_tokens(), sampler.samples_per_epoch() * kLength);
  std::vector<int32_t> ids = all.ids_T;
  std::ranges::sort(ids);
  EXPECT_EQ(ids, counting(0, ids.size()));  // a token of this corpus is its position
}

TEST_F(DocumentRowsTest, ASequenceIsOfOneDocumentAndAlmostAllAreWhole) {
  const Sampler sampler = this->sampler();
  const IndexedDataset corpus(folder_ / "c");
  const HostBatch all = make_batch(sampler, 0, sampler.samples_per_epoch(), {});
  int64_t whole = 0, could_be = 0;
  for (size_t s = 0; s + 1 < all.cu_seqlens.size(); ++s) {
    const auto begin = static_cast<size_t>(all.cu_seqlens[s]),
               end = static_cast<size_t>(all.cu_seqlens[s + 1]);
    const int64_t document = corpus.document_of(all.ids_T[begin]);
    const int64_t from = corpus.document_begin(document), to = corpus.document_begin(document + 1);
    EXPECT_EQ(all.sequence_sample[s], static_cast<int64_t>(begin) / kLength);
    for (size_t t = begin; t < end; ++t) {
      EXPECT_EQ(corpus.document_of(all.ids_T[t]), document);
      EXPECT_EQ(all.position_T[t], static_cast<int32_t>(t - begin));
      const bool last = all.ids_T[t] + 1 == to;
      EXPECT_EQ(all.loss_weight_T[t], last ? 0 : 1);
      EXPECT_TRUE(last || all.targets_T[t] == all.ids_T[t] + 1);
    }
    if (to - from > kLength) continue;
    whole += static_cast<int64_t>(end - begin) == to - from;
    could_be += all.ids_T[begin] == from;
  }
  EXPECT_GT(whole, could_be * 9 / 10);
  EXPECT_EQ(all.total_weight, std::count(all.loss_weight_T.begin(), all.loss_weight_T.end(), 1.0f));
}

TEST_F(DocumentRowsTest, ASampleIsTheSameWhateverIsAskedForWithIt) {
  options_.shuffle = true;
  const Sampler sampler = this->sampler();
  const HostBatch all = make_batch(sampler, 0, 24, {});
  for (const int64_t count : {1, 3, 8}) {
    for (int64_t first = 0; first < 24; first += count) {
      HostBatch part = make_batch(sampler, 30, 2, {});
      fill_batch(sampler, first, count, {}, part);
      const auto same = [&](const auto& whole, const auto& piece) {
        return std::ranges::equal(std::span(whole).subspan(static_cast<size_t>(first * kLength),
                                                           static_cast<size_t>(count * kLength)),
                                  piece);
      };
      EXPECT_TRUE(same(all.ids_T, part.ids_T)) << first;
      EXPECT_TRUE(same(all.position_T, part.position_T)) << first;
      EXPECT_TRUE(same(all.loss_weight_T, part.loss_weight_T)) << first;
    }
  }
}

TEST_F(DocumentRowsTest, PartsOfASplitAreApart) {
  options_.validation_fraction = 0.2;
  const Sampler training = sampler();
  options_.split = Split::validation;
  const Sampler validation = sampler();
  const HostBatch a = make_batch(training, 0, training.samples_per_epoch(), {}),
                  b = make_batch(validation, 0, validation.samples_per_epoch(), {});
  EXPECT_LT(*std::ranges::max_element(a.ids_T), *std::ranges::min_element(b.ids_T));
  EXPECT_EQ(validation.locate(0).first_token, *std::ranges::min_element(b.ids_T));
}

}  // namespace
}  // namespace megalith::data
