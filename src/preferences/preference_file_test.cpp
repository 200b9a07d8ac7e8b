// SPDX-License-Identifier: Apache-2.0
#include "preferences/preference_file.h"

#include <gmock/gmock.h>

#include "tune/file_fixture.h"

namespace megalith::tune {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr int32_t kEnd = 258;

class PreferenceFile : public FileTest {
 protected:
  std::vector<int32_t> before_;  // stand before every answer
  std::string template_ =
      "{% for m in messages %}{{ m.role[0] }}{{ m.content }}<|endoftext|>\n{% endfor %}"
      "{% if add_generation_prompt %}a{% endif %}";
  std::vector<Preference> read(std::string_view content, int64_t most_tokens = 100,
                               config::Overlong overlong = config::Overlong::drop) {
    const auto chats = chat::ChatFolder::parse({{"chat_template.jinja", template_}}, "folder");
    counts_ = {};
    return read_preferences(
        {put("a.jsonl", content)},
        {tokenizer_, chats, kEnd, FieldTemplate("{input} {output}", "t"), false, before_},
        {"tune.data", most_tokens, overlong}, counts_);
  }
  std::string fault(std::string_view content, int64_t most_tokens = 100,
                    config::Overlong overlong = config::Overlong::refuse) {
    return fault_of([&] { read(content, most_tokens, overlong); });
  }
};

constexpr char kTexts[] =
    "{\"prompt\": \"xy\", \"chosen\": \"zab\", \"rejected\": \"q\"}\n\n"
    "{\"prompt\": \"x\", \"chosen\": \"u\", \"rejected\": \"vwxyz\"}\n";

TEST_F(PreferenceFile, AnswersAreLearnedAsThoseOfExamples) {
  const auto pairs = read(kTexts);
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(counts_.lines, 2);
  EXPECT_THAT(pairs[0].chosen.ids, ElementsAre('x', 'y', 'z', 256, kEnd));
  EXPECT_THAT(pairs[0].chosen.learned, ElementsAre(0, 0, 1, 1, 1));
  EXPECT_THAT(pairs[0].rejected.ids, ElementsAre('x', 'y', 'q', kEnd));
  EXPECT_THAT(pairs[0].rejected.learned, ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(pairs[0].tokens(), 4 + 3);
}

TEST_F(PreferenceFile, ChatsGoThroughTheTemplate) {
  const auto pairs = read(
      R"({"chosen": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}], )"
      R"("rejected": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "ab"}]})");
  ASSERT_EQ(pairs.size(), 1u);
  EXPECT_EQ(tokenizer_.decode(pairs[0].chosen.ids, true), "ux<|endoftext|>\nay<|endoftext|>\n");
  EXPECT_EQ(std::ranges::count(pairs[0].chosen.learned, 1), 2);
  EXPECT_EQ(std::ranges::count(pairs[0].rejected.learned, 1), 2);  // "ab" is one token
}

TEST_F(PreferenceFile, VirtualTokensStandBeforeBothAnswers) {
  before_ = {300, 301};
  const auto pairs = read(kTexts);
  for (const Example* answer : {&pairs[0].chosen, &pairs[0].rejected}) {
    EXPECT_EQ(answer->ids[0], 300);
    EXPECT_EQ(answer->ids[1], 301);
    EXPECT_EQ(answer->learned[1], 0);
    EXPECT_EQ(answer->ids.size(), answer->learned.size());
  }
}

TEST_F(PreferenceFile, LongPairsAreDroppedTruncatedOrRefused) {
  EXPECT_EQ(read(kTexts, 7).size(), 1u);  // 4 + 3, and 2 + 6
  EXPECT_EQ(counts_.dropped, 1);
  EXPECT_EQ(read(kTexts, 8).size(), 2u);
  EXPECT_EQ(counts_.dropped, 0);
  EXPECT_THAT(fault(kTexts, 7),
              AllOf(HasSubstr("a.jsonl:3: has answers that are 2 and 6 tokens long"),
                    EndsWith("tune.overlong: drop or truncate")));
  // The longer one gives way, and then both.
  auto pairs = read(kTexts, 7, config::Overlong::truncate);
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(counts_.truncated, 1);
  EXPECT_EQ(pairs[1].chosen.tokens(), 2);
  EXPECT_EQ(pairs[1].rejected.tokens(), 5);
  pairs = read(kTexts, 5, config::Overlong::truncate);
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs[0].chosen.tokens(), 2);  // of 4 and 3
  EXPECT_EQ(pairs[0].rejected.tokens(), 2);
  EXPECT_EQ(pairs[1].chosen.tokens(), 2);
  EXPECT_EQ(pairs[1].rejected.tokens(), 3);
  // Of which nothing is left to prefer.
  Preference same{{{1, 2, 3, 4, 5}, {0, 1, 1, 1, 1}}, {{1, 2, 3, 9}, {0, 1, 1, 1}}};
  const LengthRule rule{"tune.data", 4, config::Overlong::truncate};
  EXPECT_FALSE(keep_length(same, rule, counts_));
  EXPECT_EQ(counts_.dropped, 1);
  // Nor to learn: the prompt alone.
  Preference prompt{{{1, 2, 3, 4, 5}, {0, 0, 0, 1, 1}}, {{1, 2, 3, 9}, {0, 0, 0, 1}}};
  EXPECT_FALSE(keep_length(prompt, rule, counts_));
  EXPECT_EQ(counts_.dropped, 2);
}

TEST_F(PreferenceFile, FaultsNameFileAndLine) {
  EXPECT_THAT(fault("\n{\"prompt\": \"a\", \"chosen\": \"b\"}"),
              EndsWith("a.jsonl:2: has no field \"rejected\""));
  EXPECT_THAT(fault(""), HasSubstr("tune.data: no example that fits into a sample of 100 tokens"));
  // Texts that differ, whose tokens do not.
  EXPECT_THAT(fault("{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"b<|endoftext|>\"}"),
              EndsWith("a.jsonl:1: has two answers of equal tokens"));
  // Of two turns, the first of which is shown without its thought when it is not the last.
  template_ =
      "{% for m in messages %}{{ m.role[0] }}{% if loop.last and m.role == 'assistant' %}!{% endif "
      "%}{{ m.content }}"
      "<|endoftext|>{% endfor %}{% if add_generation_prompt %}a!{% endif %}";
  EXPECT_THAT(
      fault(
          R"({"prompt": [{"role": "user", "content": "x"}], )"
          R"("chosen": [{"role": "assistant", "content": "y"}, {"role": "user", "content": "z"}, )"
          R"({"role": "assistant", "content": "w"}], )"
          R"("rejected": [{"role": "assistant", "content": "v"}]})"),
      HasSubstr("has an answer of several turns"));
}

}  // namespace
}  // namespace megalith::tune
