// SPDX-License-Identifier: Apache-2.0
// Text that is certain, and where it ends.
#include "generate/continuation.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "generate/bad_words.h"
#include "text/tokenizer_fixture.h"

namespace megalith::generate {
namespace {

/// Bytes are tokens.
text::Tokenizer bytes_tokenizer() {
  return text::Tokenizer::parse(text::small_tokenizer({{" ", "a"}}).dump(), "test");
}

struct Written {
  std::vector<std::string> pieces;
  Generated result;
};

Written write(const std::string& text, const GenerateOptions& options) {
  const text::Tokenizer tokenizer = bytes_tokenizer();
  Continuation continuation(&tokenizer, options, {}, 100);
  Written written;
  for (const char byte : text) {
    if (continuation.has_ended()) break;
    continuation.push({static_cast<unsigned char>(byte), -1});
    written.pieces.emplace_back(continuation.release());
  }
  if (!continuation.has_ended()) continuation.stop("stop");
  written.pieces.emplace_back(continuation.release());
  written.result = continuation.take();
  return written;
}

using Pieces = std::vector<std::string>;

TEST(Continuation, EndsBeforeAStopTextAndGivesNothingThatCouldBecomeOne) {
  const Written written = write("abxycd", {.stop = {"xyz", "cd"}});
  EXPECT_EQ(written.pieces, (Pieces{"a", "b", "", "", "xy", "", ""}));
  EXPECT_EQ(written.result.text, "abxy");
  EXPECT_EQ(written.result.ids.size(), 6U);
  EXPECT_EQ(written.result.finish_reason, "stop");
}

TEST(Continuation, FindsNoStopTextAmongTheFirstTokens) {
  const Written written = write("ababab", {.stop = {"ab"}, .min_tokens = 3});
  EXPECT_EQ(written.result.text,
            "aba"
            "b");
  EXPECT_EQ(written.pieces, (Pieces{"a", "b", "a", "b", "", "", ""}));
}

TEST(Continuation, WhatCouldBecomeAStopTextIsGivenWhenItEnds) {
  const Written written = write("abx", {.stop = {"xyz"}});
  EXPECT_EQ(written.pieces, (Pieces{"a", "b", "", "x"}));
  EXPECT_EQ(written.result.text, "abx");
}

TEST(Continuation, EndTokensEndItUnlessTheyArePassedOver) {
  GenerateOptions options{.end_ids = {'b'}};
  EXPECT_EQ(write("abc", options).result.text, "a");
  options.ignore_eos = true;
  EXPECT_EQ(write("abc", options).result.text, "abc");
}

TEST(BadWords, AreRunsWithAndWithoutASpaceBefore) {
  const text::Tokenizer tokenizer = bytes_tokenizer();
  const std::vector<std::string> words = {" ab", "ab", "c"};
  using Runs = std::vector<std::vector<int32_t>>;
  EXPECT_EQ(runs_of_words(tokenizer, words), (Runs{{'a', 'b'}, {256, 'b'}, {'c'}, {' ', 'c'}}));
  for (const char* empty : {"", " "}) {
    const std::vector<std::string> none = {empty};
    EXPECT_THROW(runs_of_words(tokenizer, none), UserError);
  }
}

}  // namespace
}  // namespace megalith::generate
