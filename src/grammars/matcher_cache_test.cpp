// SPDX-License-Identifier: Apache-2.0
#include "grammars/matcher_cache.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "grammars/grammar_fixture.h"

namespace megalith::grammars {
namespace {

const text::Tokenizer& letters() {
  static const text::Tokenizer tokenizer = text::Tokenizer::parse(
      R"({"version": "1.0", "truncation": null, "padding": null, "normalizer": null,
          "pre_tokenizer": null, "post_processor": null, "decoder": {"type": "Fuse"},
          "added_tokens": [],
          "model": {"type": "BPE", "dropout": null, "unk_token": "?", "fuse_unk": false,
              "byte_fallback": false, "ignore_merges": false,
              "vocab": {"a": 0, "b": 1, "?": 2}, "merges": []}})",
      "letters.json");
  return tokenizer;
}

std::shared_ptr<TokenMatcher> find(MatcherCache& cache, const std::string& expression,
                                   int* built = nullptr) {
  return cache.find(expression, [&] {
    if (built != nullptr) ++*built;
    return Grammar::regex(expression);
  });
}

TEST(MatcherCache, BuildsAGrammarOnce) {
  MatcherCache cache(letters());
  int built = 0;
  const auto first = find(cache, "ab*", &built), again = find(cache, "ab*", &built);
  const auto other = find(cache, "b", &built);
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
  EXPECT_EQ(built, 2);
  GrammarState state(other);
  EXPECT_EQ(ids_of(mask_of(state)), std::vector<int32_t>{1});
}

TEST(MatcherCache, GivesUpWhatNobodyUsesLeastRecentFirst) {
  MatcherCache cache(letters(), {.grammars = 2});
  int built = 0;
  find(cache, "a", &built);
  find(cache, "b", &built);
  find(cache, "a", &built);
  find(cache, "ab", &built);  // in place of b
  EXPECT_EQ(built, 3);
  find(cache, "a", &built);
  EXPECT_EQ(built, 3);
  find(cache, "b", &built);
  EXPECT_EQ(built, 4);
  EXPECT_EQ(cache.size(), 2u);
}

TEST(MatcherCache, HoldsNoMoreThanMayBeInUse) {
  MatcherCache cache(letters(), {.grammars = 2});
  const auto a = find(cache, "a");
  auto b = find(cache, "b");
  EXPECT_EQ(find(cache, "ab"), nullptr);
  EXPECT_EQ(find(cache, "a"), a);
  b.reset();
  EXPECT_NE(find(cache, "ab"), nullptr);
}

TEST(MatcherCache, CountsTheirBytes) {
  MatcherCache cache(letters(), {.bytes = 1});
  auto a = find(cache, "a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(find(cache, "b"), nullptr);
  a.reset();
  EXPECT_NE(find(cache, "b"), nullptr);
  EXPECT_EQ(cache.size(), 1u);
}

TEST(MatcherCache, KeepsNothingOfAGrammarThatCannotBeBuilt) {
  MatcherCache cache(letters());
  EXPECT_THROW(find(cache, "("), UserError);
  EXPECT_EQ(cache.size(), 0u);
}

}  // namespace
}  // namespace megalith::grammars
