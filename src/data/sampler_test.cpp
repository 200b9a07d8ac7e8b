// SPDX-License-Identifier: Apache-2.0
#include "data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "data/test_corpus.h"

namespace megalith::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

SamplerOptions options(int64_t length, uint64_t seed = 1) {
  SamplerOptions options;
  options.sequence_length = length;
  options.vocab_size = 65000;
  options.seed = seed;
  return options;
}

class SamplerTest : public testing::Test {
 protected:
  /// A corpus whose token at position t is base + t, in documents of `document` tokens.
  Corpus corpus(const std::string& name, int32_t base, size_t tokens, size_t document = 7) {
    std::vector<std::vector<int32_t>> documents;
    for (size_t t = 0; t < tokens; t += document) {
      documents.push_back(counting(base + static_cast<int32_t>(t), std::min(document, tokens - t)));
    }
    write_corpus(folder_ / name, documents);
    return {folder_ / name, {}};
  }
  static std::vector<int32_t> read(const Sampler& sampler, int64_t n) {
    std::vector<int32_t> tokens(static_cast<size_t>(sampler.sequence_length() + 1));
    sampler.read(n, tokens);
    return tokens;
  }
  TemporaryFolder folder_;
};

TEST_F(SamplerTest, EpochHasFloorOfTokensMinusOneOverLength) {
  for (const size_t tokens : {9u, 16u, 17u, 18u, 24u, 25u}) {
    const Sampler sampler({corpus("c", 0, tokens)}, options(8));
    EXPECT_EQ(sampler.samples_per_epoch(), (static_cast<int64_t>(tokens) - 1) / 8) << tokens;
    EXPECT_EQ(sampler.total_samples(3), 3 * sampler.samples_per_epoch());
  }
}

TEST_F(SamplerTest, EachEpochVisitsEachSampleOnceInItsOwnOrder) {
  const Sampler sampler({corpus("c", 0, 8 * 50 + 1)}, options(8));
  const int64_t samples = sampler.samples_per_epoch();
  ASSERT_EQ(samples, 50);
  std::vector<std::vector<int64_t>> orders;
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    std::vector<int64_t> order;
    for (int64_t i = 0; i < samples; ++i) {
      const SampleAddress address = sampler.locate(epoch * samples + i);
      EXPECT_EQ(address.epoch, epoch);
      EXPECT_EQ(address.first_token, address.index * 8);
      order.push_back(address.index);
    }
    EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 50u);
    for (const auto& other : orders) EXPECT_NE(order, other);
    orders.push_back(order);
  }
}

TEST_F(SamplerTest, NeighboursShareOneTokenAndEveryOtherIsATargetOnce) {
  const Sampler sampler({corpus("c", 0, 8 * 20 + 5)}, options(8));
  std::vector<int> as_target(8 * 20 + 5, 0);
  std::vector<int> as_input(8 * 20 + 5, 0);
  for (int64_t n = 0; n < 20; ++n) {
    const auto tokens = read(sampler, n);
    for (size_t i = 0; i < 8; ++i) {
      ++as_input.at(static_cast<size_t>(tokens[i]));
      ++as_target.at(static_cast<size_t>(tokens[i + 1]));
    }
  }
  for (size_t t = 0; t < as_input.size(); ++t) {
    EXPECT_EQ(as_input[t], t < 160 ? 1 : 0) << t;
    EXPECT_EQ(as_target[t], t >= 1 && t <= 160 ? 1 : 0) << t;
  }
}

// Inputs of an epoch are the tokens 0 .. N S - 1 and targets 1 .. N S, so with token t = t the sums
// over an epoch have closed forms. A sampler that is off by one in place, stride or count misses.
TEST_F(SamplerTest, SumsOverAnEpochHaveTheirClosedForm) {
  for (const int64_t length : {1, 5, 16}) {
    const Sampler sampler({corpus("c", 0, 1003)}, options(length));
    int64_t inputs = 0;
    int64_t targets = 0;
    for (int64_t n = 0; n < sampler.samples_per_epoch(); ++n) {
      const auto tokens = read(sampler, n);
      for (size_t i = 0; i < static_cast<size_t>(length); ++i) {
        inputs += tokens[i];
        targets += tokens[i + 1];
      }
    }
    const int64_t used = 1002 / length * length;
    EXPECT_EQ(inputs, used * (used - 1) / 2);
    EXPECT_EQ(targets, used * (used + 1) / 2);
  }
}

TEST_F(SamplerTest, OrderDependsOnSeedAndOrdinalNotOnPath) {
  const Corpus a = corpus("a", 0, 801);
  std::filesystem::create_directory(folder_ / "elsewhere");
  const Corpus b = corpus("elsewhere/b", 0, 801);
  const auto order = [&](const Corpus& c, uint64_t seed) {
    const Sampler sampler({c}, options(8, seed));
    std::vector<int64_t> indices;
    for (int64_t n = 0; n < 100; ++n) indices.push_back(sampler.locate(n).index);
    return indices;
  };
  EXPECT_EQ(order(a, 1), order(b, 1));
  EXPECT_NE(order(a, 1), order(a, 2));
  const Sampler both({a, b}, options(8));
  std::vector<std::vector<int64_t>> orders(2);
  for (int64_t n = 0; n < 200; ++n) {
    const SampleAddress address = both.locate(n);
    orders[static_cast<size_t>(address.corpus)].push_back(address.index);
  }
  EXPECT_EQ(orders[0], order(a, 1));
  EXPECT_NE(orders[0], orders[1]);
}

TEST_F(SamplerTest, WithoutShuffleTheFilesOrderIsKept) {
  SamplerOptions plain = options(8);
  plain.shuffle = false;
  const Sampler sampler({corpus("c", 0, 81)}, plain);
  for (int64_t n = 0; n < 30; ++n) EXPECT_EQ(read(sampler, n)[0], n % 10 * 8);
}

TEST_F(SamplerTest, BlendWithoutWeightsIsOneEpochOfEach) {
  const Sampler sampler({corpus("a", 0, 8 * 11 + 1), corpus("b", 10000, 8 * 40 + 3)}, options(8));
  ASSERT_EQ(sampler.samples_per_epoch(), 51);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<int32_t> firsts;
    for (int64_t i = 0; i < 51; ++i) {
      EXPECT_EQ(sampler.locate(51 * epoch + i).epoch, epoch);
      firsts.insert(read(sampler, 51 * epoch + i)[0]);
    }
    EXPECT_EQ(firsts.size(), 51u);
  }
}

TEST_F(SamplerTest, WeightsSetTheSharesAndEachCorpusItsOwnEpochs) {
  Corpus a = corpus("a", 0, 8 * 10 + 1);
  Corpus b = corpus("b", 10000, 8 * 40 + 1);
  a.weight = 3;
  b.weight = 1;
  const Sampler sampler({a, b}, options(8));
  std::vector<std::multiset<int64_t>> seen(2);
  for (int64_t n = 0; n < 160; ++n) {
    const SampleAddress address = sampler.locate(n);
    seen[static_cast<size_t>(address.corpus)].insert(address.index);
    EXPECT_EQ(read(sampler, n)[0], (address.corpus == 0 ? 0 : 10000) + address.first_token);
  }
  ASSERT_EQ(seen[0].size(), 120u);  // twelve epochs of ten
  ASSERT_EQ(seen[1].size(), 40u);   // one of forty
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(seen[0].count(i), 12u);
  for (int64_t i = 0; i < 40; ++i) EXPECT_EQ(seen[1].count(i), 1u);
}

TEST_F(SamplerTest, ValidationIsTheLastDocumentsAndDisjointFromTraining) {
  const Corpus c = corpus("c", 0, 700, 7);  // 100 documents of 7
  SamplerOptions split = options(4);
  split.validation_fraction = 0.155;  // floor(15.5) = 15 documents: tokens from 595 on
  const Sampler train({c}, split);
  split.split = Split::validation;
  const Sampler validation({c}, split);
  EXPECT_EQ(train.num_tokens(), 595);
  EXPECT_EQ(validation.num_tokens(), 105);
  for (int64_t n = 0; n < train.samples_per_epoch(); ++n) EXPECT_LT(read(train, n)[4], 595);
  for (int64_t n = 0; n < validation.samples_per_epoch(); ++n) {
    EXPECT_GE(read(validation, n)[0], 595);
  }
}

TEST_F(SamplerTest, AnyFractionHoldsOutAtLeastOneDocumentAndLeavesOne) {
  const Corpus c = corpus("c", 0, 21, 7);
  SamplerOptions split = options(4);
  split.split = Split::validation;
  split.validation_fraction = 1e-9;
  EXPECT_EQ(Sampler({c}, split).num_tokens(), 7);
  split.validation_fraction = 0.999;
  EXPECT_EQ(Sampler({c}, split).num_tokens(), 14);
}

TEST_F(SamplerTest, CorpusShorterThanOneSampleIsNamedWithBothNumbers) {
  const Corpus c = corpus("short", 0, 8);
  EXPECT_THAT(error_of([&] { Sampler({c}, options(8)); }),
              AllOf(StartsWith("2: "), HasSubstr("short"), HasSubstr("8 tokens"), HasSubstr("9")));
  EXPECT_EQ(Sampler({c}, options(7)).samples_per_epoch(), 1);
  write_corpus(folder_ / "empty", {});
  EXPECT_THAT(error_of([&] {
                Sampler({{folder_ / "empty", {}}}, options(1));
              }),
              AllOf(StartsWith("2: "), HasSubstr("0 tokens")));
}

TEST_F(SamplerTest, WhatCannotBeMeantIsRefused) {
  Corpus a = corpus("a", 0, 100);
  const Corpus b = corpus("b", 0, 100);
  EXPECT_THAT(error_of([&] { Sampler({}, options(8)); }), StartsWith("2: "));
  a.weight = 1;
  EXPECT_THAT(error_of([&] { Sampler({a, b}, options(8)); }), HasSubstr("1 of 2 corpora"));
  SamplerOptions split = options(8);
  split.validation_fraction = 1;
  EXPECT_THAT(error_of([&] { Sampler({b}, split); }), HasSubstr("[0, 1)"));
  split.validation_fraction = 0.5;
  EXPECT_THAT(error_of([&] { Sampler({corpus("one", 0, 100, 100)}, split); }),
              HasSubstr("1 document(s)"));
  EXPECT_THAT(error_of([&] { Sampler({b}, options(8)).total_samples(INT64_MAX / 2); }),
              StartsWith("2: "));
}

TEST_F(SamplerTest, IdsAreCheckedAgainstTheVocabulary) {
  SamplerOptions small = options(8);
  small.vocab_size = 50;
  const Sampler sampler({corpus("c", 0, 100)}, small);
  std::string error = "no error";
  for (int64_t n = 0; n < sampler.samples_per_epoch() && error == "no error"; ++n) {
    error = error_of([&] { read(sampler, n); });
  }
  EXPECT_THAT(error, AllOf(StartsWith("3: "), HasSubstr("c.bin")));
}

TEST_F(SamplerTest, GoldenOrderHoldsOnAnyMachine) {
  const Sampler sampler({corpus("c", 0, 161)}, options(8, 1234));
  std::vector<int64_t> order;
  for (int64_t n = 0; n < 20; ++n) order.push_back(sampler.locate(n).index);
  EXPECT_THAT(order, testing::ElementsAre(0, 16, 3, 1, 2, 4, 15, 6, 11, 17, 12, 18, 19, 14, 10, 7,
                                          8, 5, 13, 9));
}

}  // namespace
}  // namespace megalith::data
