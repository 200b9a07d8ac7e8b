// SPDX-License-Identifier: Apache-2.0
#include "objectives/pair_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "data/test_corpus.h"
#include "objectives/tokenizer_fixture.h"

namespace megalith::objectives {
namespace {

using data::HostBatch;
using ::testing::HasSubstr;

TEST(PairDraws, CutsTheLongerSideAtEitherEnd) {
  std::map<int64_t, int> fronts;
  for (uint64_t key = 0; key < 400; ++key) {
    SentencePair pair{{0, 30}, {30, 40}, 0};
    PairDraws(key).cut(pair, 22);
    EXPECT_EQ(pair.size(), 22);
    EXPECT_TRUE(pair.a.size() == 11 || pair.a.size() == 12) << pair.a.size();
    ++fronts[pair.a.begin];
  }
  EXPECT_GT(fronts.size(), 5u);  // of 18 or 19 tokens about half at the front
  SentencePair pair{{0, 5}, {5, 9}, 0};
  PairDraws(1).cut(pair, 9);
  EXPECT_EQ(pair.size(), 9);
}

TEST(PairDraws, PartsAndLabelsAreSpreadEvenly) {
  std::map<int64_t, int> parted;
  int changed = 0;
  for (uint64_t key = 0; key < 3000; ++key) {
    ++parted[PairDraws(key).parted(4)];
    changed += PairDraws(key).changed();
    EXPECT_EQ(PairDraws(key).parted(2), 1);
  }
  // Five standard deviations of binomial counts.
  for (const int64_t at : {1, 2, 3}) EXPECT_NEAR(parted[at], 1000, 5 * 26);
  EXPECT_NEAR(changed, 1500, 5 * 28);
}

/// Sentences of 3 to 9 tokens, each token the number of its sentence.
class PairSourceTest : public ::testing::Test {
 protected:
  static constexpr int64_t kLength = 24;
  static constexpr int32_t kBegin = 261,
                           kSeparator = 262;  // ids of special tokens, for [CLS] [SEP]
  static constexpr int kDocuments = 30, kSentences = 8;

  PairSourceTest() {
    for (const char* name : {"a", "b"}) {
      data::write_indexed(folder_ / name, data::TokenType::u16, [](data::IndexedWriter& writer) {
        for (int32_t d = 0; d < kDocuments; ++d) {
          for (int32_t s = 0; s < kSentences; ++s)
            writer.add_sequence(
                std::vector<int32_t>(static_cast<size_t>(3 + (d + 2 * s) % 7), d * kSentences + s));
          writer.end_document();
        }
      });
    }
    sampler_.sequence_length = kLength;
    sampler_.vocab_size = kVocabulary;
  }
  PairSource source(PairRelation relation, uint64_t seed = 1, bool both = false) const {
    std::vector<data::Corpus> corpora = {{folder_ / "a", {}}};
    if (both) corpora.push_back({folder_ / "b", {}});
    return {corpora,
            sampler_,
            MaskableTokens(objectives_tokenizer(), Unit::token),
            {relation, {kBegin, kSeparator}, {}, seed}};
  }
  static HostBatch filled(const data::BatchSource& source, int64_t first, int64_t count) {
    HostBatch batch;
    source.fill(first, count, batch);
    return batch;
  }
  /// What was there before tokens were hidden.
  static std::vector<int32_t> text(const HostBatch& batch) {
    std::vector<int32_t> ids = batch.ids_T;
    for (size_t t = 0; t < ids.size(); ++t)
      if (batch.loss_weight_T[t] != 0) ids[t] = batch.targets_T[t];
    return ids;
  }
  static int document(int32_t id) { return id / kSentences; }

  const data::TemporaryFolder folder_;
  data::SamplerOptions sampler_;
};

TEST_F(PairSourceTest, ASampleIsAPairAndTheTextBehindIt) {
  const PairSource order = source(PairRelation::order);
  for (int64_t n = 0; n < order.samples_per_epoch(); ++n) {
    const HostBatch b = filled(order, n, 1);
    const std::vector<int32_t> ids = text(b);
    ASSERT_EQ(ids.size(), static_cast<size_t>(kLength));
    const auto end = static_cast<size_t>(b.cu_seqlens[1]);
    const auto middle = static_cast<size_t>(std::ranges::find(ids, kSeparator) - ids.begin());
    EXPECT_EQ(ids[0], kBegin);
    EXPECT_EQ(ids[end - 1], kSeparator);
    ASSERT_LT(middle, end - 1);
    for (size_t t = 0; t < ids.size(); ++t) EXPECT_EQ(b.type_T[t], t > middle && t < end ? 1 : 0);
    const std::span a = std::span(ids).subspan(1, middle - 1),
                    second = std::span(ids).subspan(middle + 1, end - middle - 2);
    ASSERT_FALSE(a.empty() || second.empty());
    // Sentences of one document that follow one another, in one order or the other.
    EXPECT_EQ(document(a[0]), document(second[0]));
    EXPECT_EQ(b.pair_targets[0], a.back() > second.front() ? 1 : 0) << n;
    // Behind it documents one by one.
    for (size_t s = 1; s + 1 < b.cu_seqlens.size(); ++s) {
      const auto from = static_cast<size_t>(b.cu_seqlens[s]),
                 to = static_cast<size_t>(b.cu_seqlens[s + 1]);
      for (size_t t = from; t < to; ++t) {
        EXPECT_EQ(document(ids[t]), document(ids[from]));
        EXPECT_EQ(b.position_T[t], static_cast<int32_t>(t - from));
      }
      EXPECT_EQ(b.sequence_sample[s], n);
    }
    EXPECT_EQ(b.total_weight, std::ranges::count(b.loss_weight_T, 1.0f));
    EXPECT_GT(b.total_weight, 0);
  }
}

TEST_F(PairSourceTest, TheSecondIsOfAnotherDocumentInHalfOfThem) {
  const PairSource next = source(PairRelation::next);
  int64_t others = 0;
  for (int64_t n = 0; n < next.samples_per_epoch(); ++n) {
    const HostBatch b = filled(next, n, 1);
    const std::vector<int32_t> ids = text(b);
    const auto middle = static_cast<size_t>(std::ranges::find(ids, kSeparator) - ids.begin());
    EXPECT_EQ(b.pair_targets[0], document(ids[1]) == document(ids[middle + 1]) ? 0 : 1) << n;
    others += b.pair_targets[0];
  }
  EXPECT_GT(others, next.samples_per_epoch() / 4);
  EXPECT_LT(others, next.samples_per_epoch() * 3 / 4);
}

// What makes it independent of micro-batches, data ranks and where a run goes on.
TEST_F(PairSourceTest, ASampleIsTheSameWhateverIsAskedForWithIt) {
  const PairSource pairs = source(PairRelation::next, 1, true);
  const HostBatch all = filled(pairs, 0, 20);
  for (const int64_t count : {1, 2, 5}) {
    for (int64_t first = 20 - count; first >= 0; first -= count) {
      HostBatch part = filled(pairs, 17, 3);  // memory that held another
      pairs.fill(first, count, part);
      const auto same = [&](const auto& whole, const auto& piece, int64_t length = kLength) {
        return std::ranges::equal(std::span(whole).subspan(static_cast<size_t>(first * length),
                                                           static_cast<size_t>(count * length)),
                                  piece);
      };
      EXPECT_TRUE(same(all.ids_T, part.ids_T)) << first << ", " << count;
      EXPECT_TRUE(same(all.type_T, part.type_T)) << first << ", " << count;
      EXPECT_TRUE(same(all.position_T, part.position_T)) << first << ", " << count;
      EXPECT_TRUE(same(all.targets_T, part.targets_T)) << first << ", " << count;
      EXPECT_TRUE(same(all.loss_weight_T, part.loss_weight_T)) << first << ", " << count;
      EXPECT_TRUE(same(all.pair_targets, part.pair_targets, 1)) << first << ", " << count;
    }
  }
}

TEST_F(PairSourceTest, EachEpochAndSeedAsksOtherwise) {
  sampler_.shuffle = false;
  const PairSource pairs = source(PairRelation::order);
  const int64_t epoch = pairs.samples_per_epoch();
  const HostBatch first = filled(pairs, 0, epoch), second = filled(pairs, epoch, epoch);
  EXPECT_NE(first.pair_targets, second.pair_targets);
  EXPECT_NE(text(first), text(second));
  EXPECT_NE(filled(source(PairRelation::order, 2), 0, epoch).pair_targets, first.pair_targets);
  sampler_.seed = 99;  // of the order alone
  EXPECT_EQ(filled(source(PairRelation::order), 0, epoch).ids_T, first.ids_T);
}

TEST_F(PairSourceTest, WhatHasNoPairIsRefused) {
  data::write_corpus(folder_ / "plain", {data::counting(1, 60), data::counting(5, 70)});
  const auto error = [&](const char* name, PairRelation relation) {
    return data::error_of([&] {
      PairSource({{folder_ / name, {}}}, sampler_,
                 MaskableTokens(objectives_tokenizer(), Unit::token),
                 {relation, {kBegin, kSeparator}, {}, 1});
    });
  };
  EXPECT_THAT(error("plain", PairRelation::order), HasSubstr("pack --sentences"));
  data::write_indexed(folder_ / "one", data::TokenType::u16, [](data::IndexedWriter& writer) {
    for (int32_t s = 0; s < 9; ++s) writer.add_sequence(data::counting(s, 5));
    writer.end_document();
  });
  EXPECT_THAT(error("one", PairRelation::next), HasSubstr("two documents"));
  EXPECT_EQ(error("one", PairRelation::order), "no error");
}

TEST(PairTokens, AreNamed) {
  EXPECT_THAT(data::error_of([] { pair_tokens(objectives_tokenizer()); }), HasSubstr("no [CLS]"));
}

}  // namespace
}  // namespace megalith::objectives
