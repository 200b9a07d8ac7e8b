// SPDX-License-Identifier: Apache-2.0
#include "data/host_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/test_corpus.h"

namespace megalith::data {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr int32_t kEnd = 0;

/// Two samples of six tokens, in file order:
///   inputs  5 6 0 7 0 0 | 8 9 1 2 3 0    targets  6 0 7 0 0 8 | 9 1 2 3 0 4
class HostBatchTest : public testing::Test {
 protected:
  HostBatchTest() {
    write_corpus(folder_ / "c",
                 {{5, 6, kEnd}, {7, kEnd}, {kEnd}, {8, 9, 1, 2, 3, kEnd}, {4, kEnd}});
    SamplerOptions options;
    options.sequence_length = 6;
    options.vocab_size = 10;
    options.shuffle = false;
    sampler_.emplace(std::vector<Corpus>{{folder_ / "c", {}}}, options);
    options_.end_of_document = kEnd;
  }
  HostBatch batch() const { return make_batch(*sampler_, 0, 2, options_); }

  TemporaryFolder folder_;
  std::optional<Sampler> sampler_;
  BatchOptions options_;
};

TEST_F(HostBatchTest, PlainSamplesAreOneSequenceEach) {
  const HostBatch b = batch();
  EXPECT_THAT(b.ids_T, ElementsAre(5, 6, 0, 7, 0, 0, 8, 9, 1, 2, 3, 0));
  EXPECT_THAT(b.targets_T, ElementsAre(6, 0, 7, 0, 0, 8, 9, 1, 2, 3, 0, 4));
  EXPECT_THAT(b.position_T, ElementsAre(0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5));
  EXPECT_THAT(b.loss_weight_T, Each(1.0f));
  EXPECT_THAT(b.cu_seqlens, ElementsAre(0, 6, 12));
  EXPECT_THAT(b.sequence_sample, ElementsAre(0, 1));
  EXPECT_EQ(b.total_weight, 12);
  EXPECT_EQ(b.num_sequences(), 2);
}

TEST_F(HostBatchTest, DocumentMaskCutsBehindEachEndAndKeepsPositions) {
  options_.document_mask = true;
  const HostBatch b = batch();
  EXPECT_THAT(b.cu_seqlens, ElementsAre(0, 3, 5, 6, 12));
  EXPECT_THAT(b.sequence_sample, ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(b.position_T, ElementsAre(0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5));
  EXPECT_THAT(b.loss_weight_T, Each(1.0f));
}

TEST_F(HostBatchTest, PositionsRestartBehindEachEnd) {
  options_.reset_positions = true;
  const HostBatch b = batch();
  EXPECT_THAT(b.position_T, ElementsAre(0, 1, 2, 0, 1, 0, 0, 1, 2, 3, 4, 5));
  EXPECT_THAT(b.cu_seqlens, ElementsAre(0, 6, 12));
}

TEST_F(HostBatchTest, EndOfDocumentAsInputHasNoLoss) {
  options_.end_of_document_loss = false;
  const HostBatch b = batch();
  EXPECT_THAT(b.loss_weight_T, ElementsAre(1, 1, 0, 1, 0, 0, 1, 1, 1, 1, 1, 0));
  EXPECT_EQ(b.total_weight, 8);
}

TEST_F(HostBatchTest, AllMasksTogether) {
  options_ = {kEnd, true, true, false};
  const HostBatch b = batch();
  EXPECT_THAT(b.cu_seqlens, ElementsAre(0, 3, 5, 6, 12));
  EXPECT_THAT(b.position_T, ElementsAre(0, 1, 2, 0, 1, 0, 0, 1, 2, 3, 4, 5));
  EXPECT_EQ(b.total_weight, 8);
}

TEST_F(HostBatchTest, MicroBatchesJoinToTheBatch) {
  options_ = {kEnd, true, true, false};
  const HostBatch whole = batch();
  double weight = 0;
  std::vector<int32_t> ids;
  for (int64_t n = 0; n < 2; ++n) {
    const HostBatch part = make_batch(*sampler_, n, 1, options_);
    EXPECT_EQ(part.sequence_sample.back(), n);
    ids.insert(ids.end(), part.ids_T.begin(), part.ids_T.end());
    weight += part.total_weight;
  }
  EXPECT_EQ(ids, whole.ids_T);
  EXPECT_EQ(weight, whole.total_weight);
  options_.end_of_document_loss = true;
  EXPECT_EQ(batch().total_weight, 12);
}

TEST_F(HostBatchTest, RefillingLeavesNothingOfTheLastBatch) {
  options_.document_mask = true;
  HostBatch reused = batch();
  reused.sequence_task.assign(4, 1);
  fill_batch(*sampler_, 1, 1, options_, reused);
  const HostBatch fresh = make_batch(*sampler_, 1, 1, options_);
  EXPECT_EQ(reused.ids_T, fresh.ids_T);
  EXPECT_EQ(reused.cu_seqlens, fresh.cu_seqlens);
  EXPECT_EQ(reused.sequence_sample, fresh.sequence_sample);
  EXPECT_EQ(reused.total_weight, fresh.total_weight);
  EXPECT_EQ(reused.first_sample, 1);
  EXPECT_TRUE(reused.sequence_task.empty());
}

TEST_F(HostBatchTest, TheFirstSampleHasTheTasksOfItsSequences) {
  options_.document_mask = true;
  HostBatch both = batch();
  EXPECT_TRUE(first_sample(both).sequence_task.empty());
  both.sequence_task = {2, 0, -1, 1};
  const HostBatch first = first_sample(both);
  EXPECT_THAT(first.cu_seqlens, ElementsAre(0, 3, 5, 6));
  EXPECT_THAT(first.sequence_task, ElementsAre(2, 0, -1));
}

TEST_F(HostBatchTest, MasksWithoutAnEndOfDocumentAreAMistake) {
  options_.end_of_document.reset();
  EXPECT_EQ(batch().total_weight, 12);
  options_.document_mask = true;
  EXPECT_THROW(batch(), InternalError);
}

}  // namespace
}  // namespace megalith::data
