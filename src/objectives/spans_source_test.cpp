// SPDX-License-Identifier: Apache-2.0
#include "objectives/spans_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/test_corpus.h"
#include "objectives/tokenizer_fixture.h"

namespace megalith::objectives {
namespace {

using data::HostBatch;
using ::testing::Each;
using ::testing::ElementsAre;

class SpansSourceTest : public ::testing::Test {
 protected:
  SpansSourceTest() {
    std::vector<std::vector<int32_t>> documents;
    for (int32_t length = 3; length < 40; ++length) {
      documents.push_back(data::counting(length, static_cast<size_t>(length)));
      documents.back().push_back(kEnd);
    }
    data::write_corpus(folder_ / "a", documents);
    data::write_corpus(folder_ / "b", documents);
    sampler_.sequence_length = counts_.raw;
    sampler_.vocab_size = kVocabulary;
  }
  std::vector<data::Corpus> corpora(bool both = false) const {
    std::vector<data::Corpus> list = {{folder_ / "a", {}}};
    if (both) list.push_back({folder_ / "b", {}});
    return list;
  }
  SpansSource source(uint64_t seed = 1, bool both = false) const {
    return {corpora(both), sampler_, counts_, {{300, 301, 302, 303, 304}, 270, kEnd}, seed};
  }
  static HostBatch filled(const data::BatchSource& source, int64_t first, int64_t count) {
    HostBatch batch;
    source.fill(first, count, batch);
    return batch;
  }

  const data::TemporaryFolder folder_;
  const SpanCounts counts_ = span_counts({0.3, 2}, 16);  // 18 tokens of text; the decoder's 8
  data::SamplerOptions sampler_;
};

TEST_F(SpansSourceTest, ASampleIsOneSequenceOfEachSide) {
  const SpansSource spans = source();
  EXPECT_EQ(spans.sequence_length(), 8);
  EXPECT_EQ(spans.encoder_length(), 16);
  EXPECT_EQ(spans.sample_weight(), 8.0);
  const HostBatch b = filled(spans, 3, 2);
  EXPECT_EQ(b.num_samples, 2);
  EXPECT_EQ(b.encoder.num_samples, 2);
  EXPECT_EQ(b.first_sample, 3);
  EXPECT_EQ(b.encoder.first_sample, 3);
  EXPECT_THAT(b.cu_seqlens, ElementsAre(0, 8, 16));
  EXPECT_THAT(b.encoder.cu_seqlens, ElementsAre(0, 16, 32));
  EXPECT_THAT(b.sequence_sample, ElementsAre(3, 4));
  EXPECT_THAT(b.encoder.sequence_sample, ElementsAre(3, 4));
  EXPECT_THAT(b.position_T, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(b.encoder.position_T.size(), 32u);
  EXPECT_EQ(b.encoder.position_T[31], 15);
  EXPECT_THAT(b.loss_weight_T, Each(1.0f));
  EXPECT_EQ(b.total_weight, 16);
}

// What the samples are made of: all tokens of the corpus, in windows that follow one another.
TEST_F(SpansSourceTest, HoldsTheTokensOfTheCorpus) {
  sampler_.shuffle = false;
  const SpansSource spans = source();
  const data::Sampler sampler(corpora(), sampler_);
  ASSERT_EQ(spans.samples_per_epoch(), sampler.samples_per_epoch());
  for (int64_t n = 0; n < spans.samples_per_epoch(); ++n) {
    const HostBatch b = filled(spans, n, 1);
    std::vector<int32_t> read(static_cast<size_t>(counts_.raw + 1)), text;
    sampler.read(n, read);
    read.pop_back();
    size_t at = 0;
    for (const int32_t id : std::span(b.encoder.ids_T).first(15)) {
      if (id < 300) text.push_back(id);
      if (id < 300) continue;
      EXPECT_EQ(b.targets_T[at], id);
      for (++at; b.targets_T[at] < 300 && at < 7; ++at) text.push_back(b.targets_T[at]);
    }
    EXPECT_EQ(text, read) << n;
  }
}

// What makes it independent of micro-batches, data ranks and where a run goes on.
TEST_F(SpansSourceTest, ASampleIsTheSameWhateverIsAskedForWithIt) {
  const SpansSource spans = source(1, true);
  const HostBatch all = filled(spans, 0, 40);
  for (const int64_t count : {1, 2, 5, 20}) {
    for (int64_t first = 40 - count; first >= 0; first -= count) {
      HostBatch part = filled(spans, 17, 3);  // memory that held another
      spans.fill(first, count, part);
      const auto same = [&](const auto& whole, const auto& piece, int64_t length) {
        return std::ranges::equal(std::span(whole).subspan(static_cast<size_t>(first * length),
                                                           static_cast<size_t>(count * length)),
                                  piece);
      };
      EXPECT_TRUE(same(all.ids_T, part.ids_T, 8)) << first << ", " << count;
      EXPECT_TRUE(same(all.targets_T, part.targets_T, 8)) << first << ", " << count;
      EXPECT_TRUE(same(all.loss_weight_T, part.loss_weight_T, 8)) << first << ", " << count;
      EXPECT_TRUE(same(all.encoder.ids_T, part.encoder.ids_T, 16)) << first << ", " << count;
      EXPECT_EQ(part.encoder.cu_seqlens.back(), count * 16);
    }
  }
}

TEST_F(SpansSourceTest, SeedEpochCorpusAndPlaceSayWhatIsHidden) {
  sampler_.shuffle = false;
  const int64_t epoch = source().samples_per_epoch();
  const HostBatch first = filled(source(), 0, epoch);
  EXPECT_NE(filled(source(), epoch, epoch).encoder.ids_T, first.encoder.ids_T);
  EXPECT_NE(filled(source(2), 0, epoch).encoder.ids_T, first.encoder.ids_T);
  sampler_.seed = 99;
  EXPECT_EQ(filled(source(), 0, epoch).encoder.ids_T, first.encoder.ids_T);
  // Two corpora with the same bytes: the samples of one are those of `first`, of the other not.
  const SpansSource both = source(1, true);
  const data::Sampler sampler(corpora(true), sampler_);
  int same = 0;
  for (int64_t n = 0; n < 2 * epoch; ++n) {
    const auto place = sampler.locate(n);
    const auto ids = std::span(first.encoder.ids_T).subspan(static_cast<size_t>(place.index) * 16);
    const bool equal = std::ranges::equal(ids.first(16), filled(both, n, 1).encoder.ids_T);
    EXPECT_TRUE(equal || place.corpus != 0) << n;
    same += equal;
  }
  EXPECT_LT(same, epoch + epoch / 2);
}

TEST_F(SpansSourceTest, IsKnownByItsCorpus) {
  const SpansSource spans = source();
  const data::Sampler sampler(corpora(), sampler_);
  const std::string print = spans.fingerprint({});
  EXPECT_EQ(print, sampler.fingerprint({}));
  EXPECT_TRUE(spans.has_fingerprint(print, print));
  EXPECT_FALSE(spans.has_fingerprint("all-0", print));
}

text::Tokenizer tokenizer_with(const std::vector<std::string>& added) {
  nlohmann::json json = objectives_json();
  for (const std::string& content : added) {
    nlohmann::json token = json["added_tokens"][0];
    token["id"] = kVocabulary + static_cast<int64_t>(json["added_tokens"].size()) - 5;
    token["content"] = content;
    json["added_tokens"].push_back(token);
  }
  return text::parse(json);
}

TEST(SpanTokens, AreFoundByName) {
  const auto t5 = tokenizer_with({"<pad>", "<extra_id_1>", "<extra_id_0>"});
  const SpanTokens tokens = span_tokens(t5, {}, 2);
  EXPECT_THAT(tokens.sentinels, ElementsAre(kVocabulary + 2, kVocabulary + 1));
  EXPECT_EQ(tokens.start, kVocabulary);
  EXPECT_EQ(tokens.end, kEnd);
  const auto marked = tokenizer_with({"<pad>", "\u2581<extra_id_0>"});
  EXPECT_THAT(span_tokens(marked, {}, 1).sentinels, ElementsAre(kVocabulary + 1));
  const auto others = tokenizer_with({"<s>", "<m0x>", "<m1x>"});
  EXPECT_THAT(span_tokens(others, {"<m{}x>", "<s>"}, 2).sentinels,
              ElementsAre(kVocabulary + 1, kVocabulary + 2));
}

TEST(SpanTokens, AMissingOneIsNamed) {
  const auto error = [](const std::vector<std::string>& added, int64_t sentinels) {
    return data::error_of([&] { span_tokens(tokenizer_with(added), {}, sentinels); });
  };
  EXPECT_THAT(error({"<pad>", "<extra_id_0>"}, 2), ::testing::HasSubstr("\"<extra_id_1>\""));
  EXPECT_THAT(error({"<extra_id_0>"}, 1), ::testing::HasSubstr("\"<pad>\""));
  EXPECT_EQ(error({"<pad>", "<extra_id_0>"}, 1), "no error");
}

}  // namespace
}  // namespace megalith::objectives
