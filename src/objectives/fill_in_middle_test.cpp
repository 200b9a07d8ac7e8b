// SPDX-License-Identifier: Apache-2.0
#include "objectives/fill_in_middle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/error.h"
#include "characters/utf8.h"
#include "data/batch_source.h"
#include "data/test_corpus.h"
#include "math/random.h"
#include "objectives/tokenizer_fixture.h"

namespace megalith::objectives {
namespace {

using Ids = std::vector<int32_t>;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const text::Tokenizer& tokenizer() {
  static const text::Tokenizer one = objectives_tokenizer();
  return one;
}

Ids changed(Ids tokens, uint64_t key, const FillInMiddleOptions& options) {
  FillInMiddle(tokenizer(), options).change(key, tokens);
  return tokens;
}

Ids ids_of(std::string_view text) { return tokenizer().encode(text, false); }

/// A text with room behind it: ends of documents, each of which begins a text of nothing.
Ids with_room(const Ids& text, size_t length) {
  Ids ids = text;
  ids.resize(length, kEnd);
  return ids;
}

std::string bytes_of(std::span<const int32_t> ids) {
  std::string bytes;
  for (const int32_t id : ids) bytes += tokenizer().token_bytes(id);
  return bytes;
}

struct Cut {
  std::string prefix, middle, suffix;
  bool suffix_first = false;
};

/// A text that was cut, taken apart; nothing if it was not. With the suffix first, prefix and
/// middle are one piece.
std::optional<Cut> taken_apart(const Ids& ids) {
  if (ids[0] != kPrefix) return std::nullopt;
  const auto at = [&](int32_t id) { return std::ranges::find(ids, id) - ids.begin(); };
  const auto piece = [&](int64_t begin, int64_t end) {
    return bytes_of(
        std::span(ids).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
  };
  const int64_t suffix = at(kSuffix), middle = at(kMiddle), end = at(kEnd);
  Cut cut;
  cut.suffix_first = suffix == 1;
  cut.prefix = piece(1, suffix);
  cut.suffix = piece(suffix + 1, middle);
  cut.middle = piece(middle + 1, end);
  return cut;
}

// Worked out apart from this code, from the definition in fill_in_middle.h and Philox4x32-10.
// Checkpoints of running trainings rely on these bits.
TEST(FillInMiddle, HasTheseBits) {
  Ids sample = ids_of("d\u00EDa de sol<|endoftext|>ab c<|endoftext|><|endoftext|>funci\u00F3n x");
  ASSERT_EQ(sample.size(), 28u);
  EXPECT_THAT(changed(sample, 0, {0.7, 0.5, {}}),
              ElementsAre(kPrefix, 100, 195, 173, 97, 32, 100, 101, kSuffix, 111, 108, kMiddle, 32,
                          115, kEnd, 97, 98, 32, 99, kEnd, kEnd, 102, 117, 110, 99, 105, 195, 179));
  EXPECT_THAT(changed(sample, 6, {0.7, 0.5, {}}),
              ElementsAre(kPrefix, kSuffix, 32, 100, 101, 32, 115, 111, 108, kMiddle, 100, 195, 173,
                          97, kEnd, kPrefix, kSuffix, 99, kMiddle, 97, 98, 32, kEnd, kEnd, kPrefix,
                          kSuffix, 32, 120));
}

TEST(FillInMiddle, APieceIsWhatATokenizerMakesOfIt) {
  const std::string text = "the theatre \u20AC the then";
  const Ids sample = with_room(ids_of(text), 64);
  constexpr size_t n = 22;  // characters
  std::map<std::pair<size_t, size_t>, int> places;
  int cut = 0, suffix_first = 0;
  constexpr int kKeys = 8000;
  for (uint64_t key = 0; key < kKeys; ++key) {
    const Ids out = changed(sample, key, {0.6, 0.3, {}});
    const auto parts = taken_apart(out);
    if (!parts) {
      ASSERT_EQ(out, sample) << key;
      continue;
    }
    ++cut;
    suffix_first += parts->suffix_first;
    ASSERT_EQ(parts->prefix + parts->middle + parts->suffix, text) << key;
    for (const std::string& piece : {parts->prefix, parts->suffix}) {
      ASSERT_EQ(characters::find_invalid_utf8(piece), std::string::npos) << key;
    }
    if (parts->suffix_first) continue;
    Ids expected = {kPrefix};
    for (const auto& [piece, next] :
         {std::pair{parts->prefix, kSuffix}, {parts->suffix, kMiddle}}) {
      const Ids ids = ids_of(piece);
      expected.insert(expected.end(), ids.begin(), ids.end());
      expected.push_back(next);
    }
    const Ids ids = ids_of(parts->middle);
    expected.insert(expected.end(), ids.begin(), ids.end());
    ASSERT_EQ(out, with_room(expected, 64)) << key;
    ++places[{parts->prefix.size(), parts->middle.size()}];
  }
  const auto near = [](double count, double trials, double p) {
    return std::abs(count - trials * p) <= 5 * std::sqrt(trials * p * (1 - p));
  };
  EXPECT_TRUE(near(cut, kKeys, 0.6)) << cut;
  // Two places of n + 1. Where both orders have an empty prefix they are the same.
  const double no_prefix = 1 - std::pow(n / (n + 1.0), 2);
  EXPECT_TRUE(near(suffix_first, cut, 0.3 + 0.7 * no_prefix)) << suffix_first;
  EXPECT_EQ(places.size(), n * (n + 1) / 2);  // every pair behind the first character
  int no_middle = 0;
  for (const auto& [place, count] : places) no_middle += place.second == 0 ? count : 0;
  EXPECT_TRUE(near(no_middle, cut - suffix_first, 1.0 / n)) << no_middle;
}

TEST(FillInMiddle, TheOrderIsOfTheSamePieces) {
  const Ids sample = with_room(ids_of("the theatre"), 32);
  for (uint64_t key = 0; key < 200; ++key) {
    EXPECT_EQ(changed(sample, key, {0, 0.5, {}}), sample);
    const auto parts = taken_apart(changed(sample, key, {1, 0, {}}));
    ASSERT_TRUE(parts);
    Ids expected = {kPrefix, kSuffix};
    const auto add = [&](const std::string& piece) {
      const Ids ids = ids_of(piece);
      expected.insert(expected.end(), ids.begin(), ids.end());
    };
    add(parts->suffix);
    expected.push_back(kMiddle);
    add(parts->prefix);
    add(parts->middle);
    EXPECT_EQ(changed(sample, key, {1, 1, {}}), with_room(expected, 32)) << key;
  }
}

// What a window cuts off from a character stays at its end of the sample, and the text between is
// cut at its characters still.
TEST(FillInMiddle, PartsOfCharactersKeepTheirTokens) {
  Ids text = ids_of("\u20AC the theatre \u20AC");
  const Ids window(text.begin() + 1, text.end() - 1);  // 82 AC | ... | E2 82
  const Ids sample = with_room(window, 40);
  int within_token = 0;
  for (uint64_t key = 0; key < 500; ++key) {
    const auto parts = taken_apart(changed(sample, key, {1, 0, {}}));
    ASSERT_TRUE(parts);
    EXPECT_EQ(parts->prefix + parts->middle + parts->suffix, bytes_of(window)) << key;
    within_token += parts->prefix == "\x82\xAC th";
  }
  EXPECT_GT(within_token, 0);
}

TEST(FillInMiddle, SpecialTokensAreNeverCut) {
  Ids text = ids_of("one [MASK] two[MASK][MASK]");
  text.push_back(300);  // of a vocabulary larger than the tokenizer's
  const Ids sample = with_room(text, 40);
  for (uint64_t key = 0; key < 500; ++key) {
    const Ids out = changed(sample, key, {1, 0.5, {}});
    EXPECT_EQ(std::ranges::count(out, kMask), 3) << key;
    EXPECT_EQ(std::ranges::count(out, 300), 1) << key;
    EXPECT_EQ(out.size(), 40u);
  }
}

// Tokens that no tokenizer would make of their text: encoded anew they are fewer.
TEST(FillInMiddle, ATextThatWouldBecomeShorterStays) {
  Ids text;
  for (int i = 0; i < 8; ++i)
    for (const char c : std::string_view(" the")) text.push_back(c);
  const Ids sample = with_room(text, 48);
  EXPECT_EQ(changed(sample, 1, {1, 0.5, {}}), sample);
}

TEST(FillInMiddle, ASampleThatIsOneTextAndFullIsCutOff) {
  const Ids sample(64, 'x');
  for (uint64_t key = 0; key < 50; ++key) {
    const Ids out = changed(sample, key, {1, 0.5, {}});
    EXPECT_EQ(out[0], kPrefix);
    EXPECT_EQ(out.size(), 64u);
    EXPECT_GE(std::ranges::count(out, 'x'), 61);
  }
}

TEST(FillInMiddle, TokensAreNamedOrKnown) {
  const auto made = [](const nlohmann::json& json, const MiddleTokens& names) {
    FillInMiddle(text::parse(json), {1, 0, names});
  };
  EXPECT_THAT([&] { made(text::small_tokenizer({}), {}); },
              ThrowsMessage<UserError>(HasSubstr("name this one's in train.fim.prefix")));
  EXPECT_THAT(
      [&] {
        made(objectives_json(), {"<fim_prefix>", "<m>", "<fim_suffix>"});
      },
      ThrowsMessage<UserError>(HasSubstr("has no token \"<m>\"")));
  const Ids sample = with_room(ids_of("one"), 8);
  const Ids out = changed(sample, 1, {1, 0, {"[MASK]", "<fim_middle>", "<fim_suffix>"}});
  EXPECT_EQ(out[0], kMask);
}

TEST(FillInMiddle, ATokenizerThatPutsSpacesInFrontIsRefused) {
  nlohmann::json json = objectives_json();
  json["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_THAT([&] { FillInMiddle(text::parse(json), {}); },
              ThrowsMessage<UserError>(HasSubstr("makes \" a\" of \"a\"")));
}

TEST(FillInMiddle, SamplesOfACorpusAreKeyedByTheirPlace) {
  const data::TemporaryFolder folder;
  std::vector<Ids> documents;
  for (int i = 0; i < 40; ++i) {
    documents.push_back(ids_of("the other theatre, number " + std::to_string(i)));
    documents.back().push_back(kEnd);
  }
  data::write_corpus(folder / "c", documents);
  data::SamplerOptions sampler;
  sampler.sequence_length = 32;
  sampler.vocab_size = kVocabulary;
  sampler.shuffle = false;
  const std::vector<data::Corpus> corpora = {{folder / "c", {}}};
  const auto filled = [&](const data::BatchSource& source, int64_t first, int64_t count) {
    data::HostBatch batch;
    source.fill(first, count, batch);
    return batch;
  };
  const data::CorpusSource plain(corpora, sampler, {});
  const data::CorpusSource middle(corpora, sampler, {},
                                  rearranged(FillInMiddle(tokenizer(), {0.5, 0.5, {}}), 1));
  const int64_t epoch = middle.samples_per_epoch();
  const data::HostBatch all = filled(middle, 0, epoch);
  EXPECT_EQ(all.total_weight, static_cast<double>(epoch * 32));
  EXPECT_EQ(middle.sample_weight(), 32.0);
  for (int64_t n = 0; n < epoch; ++n) {
    const data::HostBatch one = filled(middle, n, 1), was = filled(plain, n, 1);
    EXPECT_TRUE(std::ranges::equal(one.ids_T,
                                   std::span(all.ids_T).subspan(static_cast<size_t>(n * 32), 32)));
    // The next token is the target still.
    EXPECT_TRUE(std::equal(one.ids_T.begin() + 1, one.ids_T.end(), one.targets_T.begin()));
    EXPECT_TRUE(std::ranges::count(one.ids_T, kPrefix) > 0 || one.ids_T == was.ids_T);
  }
  EXPECT_GT(std::ranges::count(all.ids_T, kPrefix), epoch / 4);
  EXPECT_NE(filled(middle, epoch, epoch).ids_T, all.ids_T);
  const data::CorpusSource other(corpora, sampler, {},
                                 rearranged(FillInMiddle(tokenizer(), {0.5, 0.5, {}}), 2));
  EXPECT_NE(filled(other, 0, epoch).ids_T, all.ids_T);
}

}  // namespace
}  // namespace megalith::objectives
