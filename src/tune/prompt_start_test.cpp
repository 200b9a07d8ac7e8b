// SPDX-License-Identifier: Apache-2.0
#include "tune/prompt_start.h"

#include <gmock/gmock.h>

#include <set>

#include "tune/file_fixture.h"

namespace megalith::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

config::TuneSection section(int64_t count, config::PromptInit init, const std::string& text = "") {
  config::TuneSection tune;
  tune.virtual_tokens = count;
  tune.prompt_init = init;
  tune.prompt_text = text;
  return tune;
}

class PromptStart : public FileTest {
 protected:
  std::vector<int32_t> ids(const config::TuneSection& tune, int64_t vocab = 20000,
                           uint64_t seed = 1) const {
    return first_tokens(tune, tokenizer_, vocab, seed);
  }
};

TEST_F(PromptStart, ATextIsTakenAgainAndAgain) {
  using config::PromptInit;
  EXPECT_THAT(ids(section(5, PromptInit::text, "xab")), ElementsAre('x', 256, 'x', 256, 'x'));
  EXPECT_THAT(ids(section(1, PromptInit::text, "xab")), ElementsAre('x'));
  EXPECT_THAT(ids(section(5, PromptInit::random)), IsEmpty());
}

TEST_F(PromptStart, TheVocabularyIsDrawnFromAsTheSeedSays) {
  const auto tune = section(2000, config::PromptInit::vocabulary);
  const std::vector<int32_t> drawn = ids(tune);
  EXPECT_EQ(drawn, ids(tune));
  EXPECT_NE(drawn, ids(tune, 20000, 2));
  const std::set<int32_t> different(drawn.begin(), drawn.end());
  EXPECT_GE(*different.begin(), 0);
  EXPECT_LT(*different.rbegin(), 5000);
  EXPECT_GT(*different.rbegin(), 4900);
  EXPECT_GT(different.size(), 1500u);
  for (const int32_t id : ids(tune, 7)) EXPECT_LT(id, 7);
}

TEST(VirtualMark, StandsAtTheBeginningAlone) {
  EXPECT_EQ(without_virtual_mark("<|VIRTUAL_PROMPT_0|>Q: {q} {a}", true), "Q: {q} {a}");
  EXPECT_EQ(without_virtual_mark("Q: {q} {a}", true), "Q: {q} {a}");
  EXPECT_EQ(without_virtual_mark("Q: {q} {a}", false), "Q: {q} {a}");
  for (const char* const text : {"Q: <|VIRTUAL_PROMPT_0|>{q} {a}", "<|VIRTUAL_PROMPT_1|>{q} {a}",
                                 "<|VIRTUAL_PROMPT_0|>{q}<|VIRTUAL_PROMPT_1|> {a}"}) {
    EXPECT_THAT(fault_of([&] { without_virtual_mark(text, true); }),
                HasSubstr("stand before the text"))
        << text;
  }
  EXPECT_THAT(fault_of([] { without_virtual_mark("<|VIRTUAL_PROMPT_0|>{q} {a}", false); }),
              HasSubstr("are for tune.method: prompt"));
}

}  // namespace
}  // namespace megalith::tune
