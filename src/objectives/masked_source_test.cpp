// SPDX-License-Identifier: Apache-2.0
#include "objectives/masked_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "data/test_corpus.h"
#include "objectives/tokenizer_fixture.h"

namespace megalith::objectives {
namespace {

using data::HostBatch;

class MaskedSourceTest : public ::testing::Test {
 protected:
  static constexpr int64_t kLength = 16;

  MaskedSourceTest() {
    std::vector<std::vector<int32_t>> documents;
    for (int32_t length = 3; length < 30; ++length) {
      documents.push_back(data::counting(length, static_cast<size_t>(length)));
      documents.back().push_back(kEnd);
    }
    data::write_corpus(folder_ / "a", documents);
    data::write_corpus(folder_ / "b", documents);
    sampler_.sequence_length = kLength;
    sampler_.vocab_size = kVocabulary;
    batches_ = {.end_of_document = kEnd, .document_mask = true, .reset_positions = true};
  }
  std::vector<data::Corpus> corpora(bool both = false) const {
    std::vector<data::Corpus> list = {{folder_ / "a", {}}};
    if (both) list.push_back({folder_ / "b", {}});
    return list;
  }
  MaskedSource source(uint64_t seed = 1, bool both = false) const {
    return {
        corpora(both), sampler_, batches_, MaskableTokens(objectives_tokenizer(), Unit::token), {},
        seed};
  }
  static HostBatch filled(const data::BatchSource& source, int64_t first, int64_t count) {
    HostBatch batch;
    source.fill(first, count, batch);
    return batch;
  }

  const data::TemporaryFolder folder_;
  data::SamplerOptions sampler_;
  data::BatchOptions batches_;
};

TEST_F(MaskedSourceTest, HoldsTheSamplesOfTheCorpusWithTokensHidden) {
  const MaskedSource masked = source();
  const data::CorpusSource plain(corpora(), sampler_, batches_);
  ASSERT_EQ(masked.samples_per_epoch(), plain.samples_per_epoch());
  EXPECT_EQ(masked.sample_weight(), std::nullopt);
  const HostBatch a = filled(masked, 3, 5), b = filled(plain, 3, 5);
  EXPECT_EQ(a.cu_seqlens, b.cu_seqlens);
  EXPECT_EQ(a.position_T, b.position_T);
  EXPECT_EQ(a.sequence_sample, b.sequence_sample);
  ASSERT_EQ(a.ids_T.size(), b.ids_T.size());
  double weight = 0;
  int hidden = 0;
  for (size_t t = 0; t < a.ids_T.size(); ++t) {
    const bool predicted = a.loss_weight_T[t] == 1;
    EXPECT_EQ(predicted ? a.targets_T[t] : a.ids_T[t], b.ids_T[t]) << t;
    EXPECT_EQ(a.loss_weight_T[t], predicted ? 1 : 0);
    EXPECT_TRUE(predicted || a.targets_T[t] == kNoTarget);
    EXPECT_FALSE(predicted && b.ids_T[t] == kEnd);
    weight += a.loss_weight_T[t];
    hidden += a.ids_T[t] == kMask;
  }
  EXPECT_EQ(a.total_weight, weight);
  EXPECT_GT(hidden, 0);
  for (int64_t i = 0; i < 5; ++i) {
    const auto begin = b.ids_T.begin() + i * kLength;
    const auto ordinary = kLength - std::count(begin, begin + kLength, kEnd);
    EXPECT_EQ(filled(masked, 3 + i, 1).total_weight, most_predicted(0.15, ordinary)) << i;
  }
}

// What makes it independent of micro-batches, data ranks and where a run goes on.
TEST_F(MaskedSourceTest, ASampleIsTheSameWhateverIsAskedForWithIt) {
  const MaskedSource masked = source(1, true);
  const HostBatch all = filled(masked, 0, 40);
  for (const int64_t count : {1, 2, 5, 20}) {
    for (int64_t first = 40 - count; first >= 0; first -= count) {
      HostBatch part = filled(masked, 17, 3);  // memory that held another
      masked.fill(first, count, part);
      const auto same = [&](const auto& whole, const auto& piece) {
        return std::ranges::equal(std::span(whole).subspan(static_cast<size_t>(first * kLength),
                                                           static_cast<size_t>(count * kLength)),
                                  piece);
      };
      EXPECT_TRUE(same(all.ids_T, part.ids_T)) << first << ", " << count;
      EXPECT_TRUE(same(all.targets_T, part.targets_T)) << first << ", " << count;
      EXPECT_TRUE(same(all.loss_weight_T, part.loss_weight_T)) << first << ", " << count;
    }
  }
}

TEST_F(MaskedSourceTest, EachEpochHidesOthersAndTheSeedOfTheOrderHasNoPart) {
  sampler_.shuffle = false;
  const MaskedSource masked = source();
  const int64_t epoch = masked.samples_per_epoch();
  const HostBatch first = filled(masked, 0, epoch), second = filled(masked, epoch, epoch);
  EXPECT_NE(first.loss_weight_T, second.loss_weight_T);
  EXPECT_EQ(first.total_weight, second.total_weight);
  sampler_.seed = 99;
  EXPECT_EQ(filled(source(), 0, epoch).ids_T, first.ids_T);
  EXPECT_NE(filled(source(2), 0, epoch).loss_weight_T, first.loss_weight_T);
}

// The place in the corpus is the key, not when it comes: the same epoch in another order has the
// same masks.
TEST_F(MaskedSourceTest, AMaskGoesWithItsPlaceInTheCorpus) {
  const auto masks_of_places = [&] {
    const MaskedSource masked = source();
    const data::Sampler sampler(corpora(), sampler_);
    std::vector<std::vector<float>> of(static_cast<size_t>(masked.samples_per_epoch()));
    for (int64_t n = 0; n < masked.samples_per_epoch(); ++n)
      of[static_cast<size_t>(sampler.locate(n).index)] = filled(masked, n, 1).loss_weight_T;
    return of;
  };
  const auto shuffled = masks_of_places();
  sampler_.shuffle = false;
  EXPECT_EQ(masks_of_places(), shuffled);
}

// Two corpora with the same bytes: their samples are not masked alike.
TEST_F(MaskedSourceTest, CorporaAreToldApart) {
  sampler_.shuffle = false;
  const MaskedSource masked = source(1, true);
  const data::Sampler sampler(corpora(true), sampler_);
  std::vector<float> of[2];
  for (int64_t n = 0; n < masked.samples_per_epoch(); ++n) {
    const HostBatch batch = filled(masked, n, 1);
    auto& list = of[sampler.locate(n).corpus];
    list.insert(list.end(), batch.loss_weight_T.begin(), batch.loss_weight_T.end());
  }
  EXPECT_EQ(of[0].size(), of[1].size());
  EXPECT_NE(of[0], of[1]);
}

TEST_F(MaskedSourceTest, IsKnownByItsCorpus) {
  const MaskedSource masked = source();
  const data::CorpusSource plain(corpora(), sampler_, batches_);
  const std::string print = masked.fingerprint({});
  EXPECT_EQ(print, plain.fingerprint({}));
  EXPECT_TRUE(masked.has_fingerprint(print, print));
  EXPECT_FALSE(masked.has_fingerprint("all-0", print));
}

}  // namespace
}  // namespace megalith::objectives
