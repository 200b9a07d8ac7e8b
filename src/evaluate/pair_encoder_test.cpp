// SPDX-License-Identifier: Apache-2.0
#include "evaluate/pair_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "text/tokenizer_fixture.h"

namespace megalith::evaluate {
namespace {

using ::testing::ElementsAre;

/// Bytes as ids; " b" is 256, "ab" 257, the end of a text 258.
text::Tokenizer tokenizer() {
  return text::Tokenizer::parse(text::small_tokenizer({{" ", "b"}, {"a", "b"}}).dump(), "test");
}
constexpr int32_t kEnd = 258;

TEST(PairEncoder, TakesTheTokensBehindTheContexts) {
  const text::Tokenizer t = tokenizer();
  PairEncoder encoder(t, kEnd, 16);
  const ScoredIds blank = encoder.pair({"a", " b"});
  EXPECT_THAT(blank.ids, ElementsAre('a', 256));
  EXPECT_EQ(blank.scored, 1);
  // White space at the context's end belongs to the continuation.
  const ScoredIds moved = encoder.pair({"a ", "b"});
  EXPECT_EQ(moved.ids, blank.ids);
  // Together "ab" is one token, as is "a" alone: none is left, as the harness has it.
  EXPECT_THROW(encoder.pair({"a", "b"}), UserError);
  const ScoredIds longer = encoder.pair({"a", "bc"});
  EXPECT_THAT(longer.ids, ElementsAre('a', 'c'));
}

TEST(PairEncoder, PutsATokenBeforeATextWithoutContext) {
  const text::Tokenizer t = tokenizer();
  PairEncoder encoder(t, kEnd, 16);
  EXPECT_THAT(encoder.pair({"", " b"}).ids, ElementsAre(kEnd, 256));
  const ScoredIds begun = encoder.pair({"", "<|endoftext|> b"});
  EXPECT_THAT(begun.ids, ElementsAre(kEnd, 256));
  EXPECT_EQ(begun.scored, 1);
  EXPECT_THROW(encoder.pair({"", ""}), UserError);
}

TEST(PairEncoder, CutsTheBeginningOfWhatIsTooLong) {
  const text::Tokenizer t = tokenizer();
  PairEncoder encoder(t, kEnd, 4);
  const ScoredIds cut = encoder.pair({"cdefgh", " b b"});
  EXPECT_THAT(cut.ids, ElementsAre('f', 'g', 'h', 256, 256));  // four are read, five known
  EXPECT_EQ(cut.scored, 2);
  const ScoredIds all = encoder.pair({"cd", " b b b b"});
  EXPECT_THAT(all.ids, ElementsAre('d', 256, 256, 256, 256));
  EXPECT_THROW(encoder.pair({"cd", " b b b b b"}), UserError);
}

TEST(PairEncoder, RollsOverATextAndScoresEveryTokenOnce) {
  const text::Tokenizer t = tokenizer();
  PairEncoder encoder(t, kEnd, 3);
  const std::vector<ScoredIds> windows = encoder.rolling("cdefghij");
  ASSERT_EQ(windows.size(), 3U);
  EXPECT_THAT(windows[0].ids, ElementsAre(kEnd, 'c', 'd', 'e'));
  EXPECT_EQ(windows[0].scored, 3);
  EXPECT_THAT(windows[1].ids, ElementsAre('e', 'f', 'g', 'h'));
  EXPECT_EQ(windows[1].scored, 3);
  // The last one scores two tokens, and reads as many as it may before them.
  EXPECT_THAT(windows[2].ids, ElementsAre('g', 'h', 'i', 'j'));
  EXPECT_EQ(windows[2].scored, 2);
  EXPECT_TRUE(encoder.rolling("").empty());
}

TEST(PairEncoder, LeavesRoomForWhatIsWritten) {
  const text::Tokenizer t = tokenizer();
  PairEncoder encoder(t, kEnd, 6);
  EXPECT_THAT(encoder.context("cdefgh", 4), ElementsAre('g', 'h'));
  EXPECT_THAT(encoder.context("", 4), ElementsAre(kEnd));
  EXPECT_THROW(encoder.context("c", 6), UserError);
}

}  // namespace
}  // namespace megalith::evaluate
