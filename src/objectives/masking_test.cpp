// SPDX-License-Identifier: Apache-2.0
#include "objectives/masking.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "math/random.h"
#include "objectives/tokenizer_fixture.h"

namespace megalith::objectives {
namespace {

using Ids = std::vector<int32_t>;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Masked {
  Ids ids, targets;
  std::vector<float> weights;
  int64_t predicted() const { return std::ranges::count(weights, 1.0f); }
  bool operator==(const Masked&) const = default;
};

Masked mask(const Ids& ids, uint64_t key, const MaskingOptions& options = {},
            Unit unit = Unit::token) {
  Masked m{ids, Ids(ids.size(), 77), std::vector<float>(ids.size(), 7)};
  const MaskableTokens tokens(objectives_tokenizer(), unit);
  mask_sample(tokens, options, key, m.ids, m.targets, m.weights);
  return m;
}

Ids counting(size_t length) {
  Ids ids(length);
  std::iota(ids.begin(), ids.end(), 1);
  return ids;
}

TEST(Masking, PredictsARoundedPartAndAtLeastOne) {
  EXPECT_EQ(most_predicted(0.15, 0), 0);
  EXPECT_EQ(most_predicted(0.15, 1), 1);
  EXPECT_EQ(most_predicted(0.15, 9), 1);     // 1.35
  EXPECT_EQ(most_predicted(0.15, 10), 2);    // 1.5
  EXPECT_EQ(most_predicted(0.15, 512), 77);  // 76.8
  EXPECT_EQ(most_predicted(1, 512), 512);
}

// Values that checkpoints of running trainings rely on: they may never change. From the definition
// in masking.h and Philox4x32-10 of the Random123 paper, worked out apart from this code.
TEST(Masking, HasTheseBits) {
  const Masked m = mask({11, 12, kEnd, 13, 14, 15, 16, 17, 18, 19}, 52, {0.6, 0.4, 0.4});
  EXPECT_THAT(m.ids, ElementsAre(220, 12, kEnd, 13, 4, 15, kMask, 17, 18, 19));
  EXPECT_THAT(m.targets, ElementsAre(11, 12, -1, -1, 14, -1, 16, 17, -1, -1));
  EXPECT_THAT(m.weights, ElementsAre(1, 1, 0, 0, 1, 0, 1, 1, 0, 0));
}

/// The definition, position by position: t is predicted if fewer than k ordinary positions are
/// before it in the order of their draws.
Masked by_definition(const Ids& ids, uint64_t key, const MaskingOptions& o) {
  Masked m{ids, Ids(ids.size(), -1), std::vector<float>(ids.size(), 0)};
  const auto order = [&](size_t t) {
    const PhiloxBlock block = philox(key, t, 0);
    return std::pair(uint64_t{block[1]} << 32 | block[0], t);
  };
  const auto ordinary = std::ranges::count_if(ids, [](int32_t id) { return id < kOrdinary; });
  const int64_t k = std::min<int64_t>(
      ordinary, std::max(1L, std::lround(o.rate * static_cast<double>(ordinary))));
  for (size_t t = 0; t < ids.size(); ++t) {
    if (ids[t] >= kOrdinary) continue;
    int64_t before = 0;
    for (size_t u = 0; u < ids.size(); ++u) before += ids[u] < kOrdinary && order(u) < order(t);
    if (before >= k) continue;
    const PhiloxBlock block = philox(key, t, 0);
    m.targets[t] = ids[t];
    m.weights[t] = 1;
    const double u = block[2] * 0x1p-32;
    if (u < o.mask_share) {
      m.ids[t] = kMask;
    } else if (u < o.mask_share + o.random_share) {
      m.ids[t] = static_cast<int32_t>(std::floor(block[3] * 0x1p-32 * kOrdinary));
    }
  }
  return m;
}

TEST(Masking, IsItsDefinition) {
  for (const size_t length : {1, 2, 7, 64, 131}) {
    Ids ids = counting(length);
    for (size_t t = 0; t < length; t += 5) ids[t] = t % 2 == 0 ? kEnd : kMask;
    for (const MaskingOptions& o :
         {MaskingOptions{}, MaskingOptions{0.5, 0.3, 0.6}, MaskingOptions{1, 0, 1},
          MaskingOptions{0.01, 1, 0}, MaskingOptions{0.4, 0, 0}}) {
      for (uint64_t key = 0; key < 20; ++key)
        ASSERT_EQ(mask(ids, key, o), by_definition(ids, key, o)) << length << ", key " << key;
    }
  }
}

// Counts over many samples against their binomial distributions, five standard deviations wide;
// the number of predictions has none.
TEST(Masking, HasTheSharesOfTheRecipe) {
  constexpr int64_t kSamples = 3000;
  constexpr size_t kLength = 100;
  const MaskableTokens tokens(objectives_tokenizer(), Unit::token);
  int64_t masked = 0, drawn = 0;
  std::vector<int64_t> at(kLength), of(kOrdinary);
  for (int64_t sample = 0; sample < kSamples; ++sample) {
    Ids in(kLength, 65), targets(kLength);
    std::vector<float> weights(kLength);
    mask_sample(tokens, {.rate = 0.15, .mask_share = 0.5, .random_share = 0.3},
                random_key(1, static_cast<uint64_t>(sample)), in, targets, weights);
    ASSERT_EQ(std::ranges::count(weights, 1.0f), 15);
    for (size_t t = 0; t < kLength; ++t) {
      if (weights[t] == 0) {
        ASSERT_EQ(in[t], 65);
        ASSERT_EQ(targets[t], kNoTarget);
        continue;
      }
      ASSERT_EQ(targets[t], 65);
      ++at[t];
      masked += in[t] == kMask;
      if (in[t] == kMask || in[t] == 65) continue;
      ++drawn;
      ++of[static_cast<size_t>(in[t])];
    }
  }
  const auto near = [](double count, double trials, double p) {
    return std::abs(count - trials * p) <= 5 * std::sqrt(trials * p * (1 - p));
  };
  const double all = kSamples * 15;
  EXPECT_TRUE(near(static_cast<double>(masked), all, 0.5)) << masked;
  const double other = static_cast<double>(kOrdinary - 1) / kOrdinary;  // a draw of 65 is not seen
  EXPECT_TRUE(near(static_cast<double>(drawn), all, 0.3 * other)) << drawn;
  for (size_t t = 0; t < kLength; ++t)
    EXPECT_TRUE(near(static_cast<double>(at[t]), kSamples, 0.15)) << t << ": " << at[t];
  for (size_t id = 0; id < of.size(); ++id) {
    if (id == 65) continue;
    EXPECT_TRUE(near(static_cast<double>(of[id]), all, 0.3 / kOrdinary)) << id << ": " << of[id];
  }
}

// " the"=258 and " " begin words; "th", "the" and other bytes go on with them.
TEST(Masking, WordsAreWhole) {
  // 0 2 4 are words of two; 6 is one of four; 10 (behind an end) one of two without a space.
  const Ids ids = {258, 's', ' ', 'a', 258, 257, ' ', 'b', 'c', 'd', kEnd, 'x', 'y'};
  const std::vector<std::set<size_t>> words = {{0, 1}, {2, 3}, {4, 5}, {6, 7, 8, 9}, {11, 12}};
  std::vector<int> chosen(words.size());
  std::map<int64_t, int> counts;
  constexpr int kKeys = 2000;
  for (uint64_t key = 0; key < kKeys; ++key) {
    const Masked m = mask(ids, key, {0.4, 1, 0}, Unit::word);  // 5 of 12
    ++counts[m.predicted()];
    for (size_t w = 0; w < words.size(); ++w) {
      const bool first = m.weights[*words[w].begin()] == 1;
      chosen[w] += first;
      for (const size_t t : words[w]) {
        ASSERT_EQ(m.weights[t], first ? 1.0f : 0.0f) << "key " << key << ", position " << t;
        ASSERT_EQ(m.ids[t], first ? kMask : ids[t]);
        ASSERT_EQ(m.targets[t], first ? ids[t] : kNoTarget);
      }
    }
    ASSERT_EQ(m.weights[10], 0);
  }
  // Two of two each, or the one of four that comes first (and, behind one of two, does not fit).
  EXPECT_EQ(counts.size(), 1u);
  EXPECT_EQ(counts[4], kKeys);
  // The long one is chosen when it is the first of five: 400 of 2000, five standard deviations.
  EXPECT_NEAR(chosen[3], 400, 5 * std::sqrt(2000 * 0.2 * 0.8));
  for (const size_t w : {0, 1, 2, 4}) EXPECT_NEAR(chosen[w], 800, 5 * std::sqrt(2000 * 0.4 * 0.6));
}

TEST(Masking, AWordOfMoreThanIsPredictedIsSeveral) {
  Ids ids(40, 'x');
  ids[0] = ' ';
  for (uint64_t key = 0; key < 50; ++key) {
    const Masked m = mask(ids, key, {0.15, 1, 0}, Unit::word);  // 6 of 40: cut at 6, 12, ...
    EXPECT_GE(m.predicted(), 4) << key;                         // the last piece has 4
    EXPECT_LE(m.predicted(), 6) << key;
  }
}

TEST(Masking, NothingToPredictIsNothing) {
  const Masked m = mask({kEnd, kMask, kEnd}, 1);
  EXPECT_THAT(m.ids, ElementsAre(kEnd, kMask, kEnd));
  EXPECT_THAT(m.targets, ElementsAre(-1, -1, -1));
  EXPECT_THAT(m.weights, ElementsAre(0, 0, 0));
}

// A vocabulary may be larger than its tokenizer's.
TEST(Masking, IdsWithoutATokenAreLeftAlone) {
  const Masked m = mask({300, 65, 264}, 1, {1, 1, 0});
  EXPECT_THAT(m.ids, ElementsAre(300, kMask, 264));
  EXPECT_THAT(m.weights, ElementsAre(0, 1, 0));
}

TEST(MaskableTokens, NeedAMaskToken) {
  const auto tokenizer = text::parse(text::small_tokenizer({}));
  EXPECT_THAT([&] { MaskableTokens(tokenizer, Unit::token); },
              ThrowsMessage<UserError>(HasSubstr("[MASK] or <mask>")));
}

TEST(MaskableTokens, AreNeitherSpecialNorTheMask) {
  nlohmann::json json = text::small_tokenizer({});
  nlohmann::json more = json["added_tokens"][0];
  more["special"] = false;
  more["content"] = "<mask>";
  more["id"] = 257;
  json["added_tokens"].push_back(more);
  more["content"] = "<tab>";
  more["id"] = 260;  // 258 and 259 are of nothing
  json["added_tokens"].push_back(more);
  const MaskableTokens tokens(text::parse(json), Unit::token);
  EXPECT_EQ(tokens.mask(), 257);
  EXPECT_EQ(tokens.ordinary().size(), 257u);
  EXPECT_EQ(tokens.ordinary().back(), 260);
  for (const int32_t id : {-1, 256, 257, 258, 259, 261}) EXPECT_FALSE(tokens.is_ordinary(id)) << id;
}

TEST(MaskableTokens, WordsNeedTokensThatTellThemApart) {
  nlohmann::json json = text::small_tokenizer({});
  nlohmann::json& vocab = json["model"]["vocab"];
  for (const char space : std::string("\t\n\v\f\r ")) {
    const std::string token = tokenize::bytes_to_token(std::string_view(&space, 1));
    vocab["<" + std::to_string(static_cast<int>(space)) + ">"] = vocab[token];
    vocab.erase(token);
  }
  nlohmann::json mask = json["added_tokens"][0];
  mask["id"] = 257;
  mask["content"] = "[MASK]";
  json["added_tokens"].push_back(mask);
  EXPECT_NO_THROW(MaskableTokens(objectives_tokenizer(), Unit::word));
  EXPECT_THAT([&] { MaskableTokens(text::parse(json), Unit::word); },
              ThrowsMessage<UserError>(HasSubstr("train.masking.whole_words")));
}

TEST(MaskableTokens, APieceThatIsMarkedGoesOnWithAWord) {
  const MaskableTokens words(wordpiece_tokenizer(), Unit::word);
  EXPECT_EQ(words.mask(), 1);
  EXPECT_THAT(words.ordinary(), ElementsAre(2, 3, 4, 5, 6));
  const auto begins = [](const MaskableTokens& tokens) {
    std::vector<bool> flags;
    for (int32_t id = 0; id < 7; ++id) flags.push_back(tokens.begins_word(id));
    return flags;
  };
  EXPECT_THAT(begins(words), ElementsAre(false, false, true, false, false, true, true));
  EXPECT_THAT(begins(MaskableTokens(wordpiece_tokenizer(), Unit::token)),
              ElementsAre(false, false, true, true, true, true, true));
}

TEST(MaskableTokens, AMarkedSpaceBeginsAWord) {
  nlohmann::json json = text::small_tokenizer({});
  nlohmann::json mask = json["added_tokens"][0];
  mask["content"] = "<mask>";
  mask["id"] = 3;
  json["added_tokens"] = nlohmann::json::array({mask});
  for (const char* part : {"pre_tokenizer", "post_processor", "decoder"}) json[part] = nullptr;
  json["model"]["merges"] = nlohmann::json::array();
  json["model"]["vocab"] = {{"\u2581", 0}, {"a", 1}, {"b", 2}, {"<mask>", 3}};
  json["model"]["unk_token"] = "a";
  const MaskableTokens words(text::parse(json), Unit::word);
  EXPECT_TRUE(words.begins_word(0));
  EXPECT_FALSE(words.begins_word(1));
  EXPECT_TRUE(words.is_ordinary(1));
}

}  // namespace
}  // namespace megalith::objectives
