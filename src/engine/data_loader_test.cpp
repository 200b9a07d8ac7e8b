// SPDX-License-Identifier: Apache-2.0
// The data ranks together read what one rank reads, step after step, while the batch grows.
#include "engine/data_loader.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "comm/backends.h"
#include "data/test_corpus.h"
#include "testing/toy_model.h"

namespace megalith::engine {
namespace {

constexpr int64_t kSteps = 5;
constexpr int64_t kFirstSample = 8;  // as after a resume

struct Read {
  std::vector<int32_t> ids;
  std::vector<int64_t> samples;
  double weight = 0;
};

Settings settings() {
  Settings s = megalith::testing::toy_settings();
  s.split.data_shards = 4;
  s.micro_batch = 1;
  s.batch = {.full = 16, .start = 4, .increment = 4, .samples = 32};
  s.ragged = true;
  return s;
}

/// What this data rank reads in each step.
std::vector<Read> read(const data::BatchSource& source, comm::Communicator& data_ranks) {
  Settings s = settings();
  s.layout.data = data_ranks.size();
  DataLoader loader(source, s, data_ranks, kFirstSample);
  std::vector<Read> steps;
  int64_t consumed = kFirstSample;
  for (int64_t i = 0; i < kSteps; ++i) {
    DataLoader::Step step = loader.next();
    EXPECT_EQ(step.first_sample, consumed);
    EXPECT_EQ(step.samples, optim::batch_size(s.batch, consumed));
    consumed += step.samples;
    Read& read = steps.emplace_back();
    read.weight = step.global_weight;
    for (const data::HostBatch& batch : step.micro_batches) {
      read.ids.insert(read.ids.end(), batch.ids_T.begin(), batch.ids_T.end());
      read.samples.push_back(batch.first_sample);
    }
    loader.recycle(std::move(step));
  }
  return steps;
}

/// Rank by rank.
std::vector<std::vector<Read>> read(const data::BatchSource& source, int ranks) {
  std::vector<std::vector<Read>> of_rank(static_cast<size_t>(ranks));
  comm::run_ranks(ranks, [&](comm::Communicator& world) {
    of_rank[static_cast<size_t>(world.rank())] = read(source, world);
  });
  return of_rank;
}

TEST(DataLoader, RanksTogetherReadWhatOneReads) {
  const data::TemporaryFolder folder;
  std::vector<std::vector<int32_t>> documents;
  for (int32_t length = 3; length < 60; ++length) {
    documents.push_back(data::counting(1, static_cast<size_t>(length)));
    documents.back().push_back(0);
  }
  data::write_corpus(folder / "corpus", documents);
  data::SamplerOptions options;
  options.sequence_length = settings().sequence_length();
  options.vocab_size = settings().model.vocab;
  for (const auto& [ranks, end_of_document_loss] :
       {std::pair{2, false}, std::pair{4, false}, std::pair{2, true}}) {
    const data::CorpusSource source({{folder / "corpus", {}}}, options,
                                    {.end_of_document = 0,
                                     .document_mask = true,
                                     .end_of_document_loss = end_of_document_loss});
    const std::vector<Read> alone = read(source, 1)[0];
    for (const Read& step : alone) {
      const auto ends = end_of_document_loss ? 0 : std::ranges::count(step.ids, 0);
      EXPECT_EQ(step.weight, static_cast<double>(std::ssize(step.ids) - ends));
    }
    std::vector<Read> together(kSteps);
    for (const std::vector<Read>& part : read(source, ranks)) {
      for (size_t i = 0; i < part.size(); ++i) {
        EXPECT_EQ(part[i].weight, alone[i].weight) << ranks << " ranks, step " << i;
        together[i].ids.insert(together[i].ids.end(), part[i].ids.begin(), part[i].ids.end());
        together[i].samples.insert(together[i].samples.end(), part[i].samples.begin(),
                                   part[i].samples.end());
      }
    }
    for (size_t i = 0; i < alone.size(); ++i) {
      EXPECT_EQ(together[i].samples, alone[i].samples) << ranks << " ranks, step " << i;
      EXPECT_EQ(together[i].ids, alone[i].ids) << ranks << " ranks, step " << i;
    }
  }
}

}  // namespace
}  // namespace megalith::engine
