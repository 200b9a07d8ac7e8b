// SPDX-License-Identifier: Apache-2.0
#include "tune/example_file.h"

#include <gmock/gmock.h>

#include "tune/file_fixture.h"

namespace megalith::tune {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class ExampleFile : public FileTest {
 protected:
  std::vector<int32_t> before_;   // stand before every example
  std::optional<int32_t> start_;  // of a decoder behind an encoder
  int64_t most_read_ = 0;
  std::vector<Example> read(std::string_view content, int64_t most_tokens = 100,
                            config::Overlong overlong = config::Overlong::drop) {
    const auto chats = chat::ChatFolder::parse(
        {{"chat_template.jinja",
          "{% for m in messages %}{{ m.role[0] }}{{ m.content }}<|endoftext|>\n{% endfor %}"
          "{% if add_generation_prompt %}a{% endif %}"}},
        "folder");
    counts_ = {};
    return read_examples(
        {put("a.jsonl", content)},
        {tokenizer_, chats, kEnd, FieldTemplate("{input} {output}", "t"), false, before_, start_},
        {"tune.validation", most_tokens, overlong, most_read_, kEnd}, counts_);
  }
  std::string fault(std::string_view content, int64_t most_tokens = 100,
                    config::Overlong overlong = config::Overlong::refuse) {
    return fault_of([&] { read(content, most_tokens, overlong); });
  }
};

std::string learned(const text::Tokenizer& tokenizer, const Example& example) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < example.ids.size(); ++i)
    if (example.learned[i] != 0) ids.push_back(example.ids[i]);
  return tokenizer.decode(ids, true);
}

TEST_F(ExampleFile, AnAnswerIsLearnedWithTheEndTokenBehindIt) {
  const auto examples = read(
      "{\"prompt\": \"xy\", \"completion\": \"zab\"}\n\n"
      "{\"input\": \"q\", \"output\": \"a\"}");
  ASSERT_EQ(examples.size(), 2u);
  EXPECT_THAT(examples[0].ids, ElementsAre('x', 'y', 'z', 256, kEnd));
  EXPECT_THAT(examples[0].learned, ElementsAre(0, 0, 1, 1, 1));
  EXPECT_EQ(learned(tokenizer_, examples[1]), " a<|endoftext|>");
  EXPECT_EQ(counts_.lines, 2);
}

/// Behind virtual tokens a text without a prompt is learned from its first token on.
TEST_F(ExampleFile, VirtualTokensStandBeforeExamplesAndCount) {
  before_ = {300, 301};
  const std::string lines =
      "{\"prompt\": \"xy\", \"completion\": \"zab\"}\n"
      "{\"prompt\": \"\", \"completion\": \"q\"}\n"
      R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]})";
  const auto examples = read(lines);
  ASSERT_EQ(examples.size(), 3u);
  EXPECT_THAT(examples[0].ids, ElementsAre(300, 301, 'x', 'y', 'z', 256, kEnd));
  EXPECT_THAT(examples[0].learned, ElementsAre(0, 0, 0, 0, 1, 1, 1));
  EXPECT_THAT(examples[1].ids, ElementsAre(300, 301, 'q', kEnd));
  EXPECT_THAT(examples[1].learned, ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(examples[2].ids[1], 301);
  EXPECT_EQ(examples[2].ids[2], 'u');
  EXPECT_EQ(examples[2].ids.size(), examples[2].learned.size());
  EXPECT_EQ(learned(tokenizer_, examples[2]), "y<|endoftext|>");
  EXPECT_EQ(read(lines, 5).size(), 1u);
  EXPECT_EQ(counts_.dropped, 2);
}

/// Inside a text they stand where its template has marks, and cut tokens there.
TEST_F(ExampleFile, VirtualTokensStandWhereMarksAre) {
  const adapters::PromptMarks marks(tokenizer_, 300, {2, 1});
  const auto chats = chat::ChatFolder::parse({}, "folder");
  const FieldTemplate fields("<|VIRTUAL_PROMPT_0|>{x}a<|VIRTUAL_PROMPT_1|>b {y}", "t");
  ExampleForm form{marks.tokenizer(), chats, kEnd, fields, true, {}, {}, &marks, 10};
  const auto read_marked = [&](std::string_view content) {
    return read_examples({put("m.jsonl", content)}, form,
                         {"tune.data", 100, config::Overlong::drop, 100, kEnd}, counts_);
  };
  const auto examples = read_marked(R"({"x": "q", "y": "r"})");
  ASSERT_EQ(examples.size(), 1u);
  EXPECT_THAT(examples[0].ids, ElementsAre(310, 311, 'q', 'a', 312, 'b', ' ', 'r', kEnd));
  EXPECT_THAT(examples[0].learned, ElementsAre(0, 0, 0, 0, 0, 0, 1, 1, 1));
  // Ids in place of a text are refused: none is taken for a mark. Beside it they are a field that
  // the template does not name.
  EXPECT_THAT(fault_of([&] { read_marked("\n{\"ids\": [300, 301], \"y\": \"r\"}"); }),
              HasSubstr("m.jsonl:2: has no field \"x\"; examples are texts, and its \"ids\" are "
                        "not read"));
  EXPECT_EQ(read_marked(R"({"x": "q", "y": "r", "ids": [300]})").at(0).ids, examples[0].ids);
  EXPECT_THAT(fault_of([&] { read_marked(R"({"x": "<|VIRTUAL_PROMPT_0|>", "y": "r"})"); }),
              HasSubstr("m.jsonl:1: the text has a <|VIRTUAL_PROMPT_"));
  form.decoder_start = 1;  // an encoder reads them
  EXPECT_THAT(fault_of([&] { read_marked(R"({"x": "q", "y": "r<|VIRTUAL_PROMPT_0|>"})"); }),
              HasSubstr("m.jsonl:1: its answer has a mark of virtual tokens"));
  const auto two = read_marked(R"({"x": "q", "y": "r"})");
  ASSERT_EQ(two.size(), 1u);
  EXPECT_THAT(two[0].read, ElementsAre(310, 311, 'q', 'a', 312, 'b'));
  EXPECT_THAT(two[0].ids, ElementsAre(1, 'r', kEnd));
}

TEST_F(ExampleFile, TurnsOfAChatAreLearned) {
  const auto examples = read(
      R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}, )"
      R"({"role": "user", "content": "z"}, {"role": "assistant", "content": "ab"}]})");
  ASSERT_EQ(examples.size(), 1u);
  EXPECT_EQ(tokenizer_.decode(examples[0].ids, true),
            "ux<|endoftext|>\nay<|endoftext|>\nuz<|endoftext|>\naab<|endoftext|>\n");
  EXPECT_EQ(learned(tokenizer_, examples[0]), "y<|endoftext|>ab<|endoftext|>");
}

/// That the first id of a text is predicted is not to be had: it is no answer.
TEST_F(ExampleFile, OfATruncatedExampleMoreThanTheFirstIdIsLearned) {
  const LengthRule rule{"tune.data", 2, config::Overlong::truncate};
  Example example{{1, 2, 3, 4}, {1, 0, 0, 1}};
  EXPECT_FALSE(keep_length(example, rule, counts_));
  EXPECT_EQ(counts_.dropped, 1);
  example = {{1, 2, 3, 4}, {1, 0, 1, 1}};
  EXPECT_TRUE(keep_length(example, rule, counts_));
  EXPECT_EQ(counts_.truncated, 1);
}

/// A token that holds the end of what is given and the beginning of what is learned is learned.
TEST_F(ExampleFile, ATokenAcrossTheBeginningIsLearned) {
  const auto examples = read("{\"prompt\": \"xa\", \"completion\": \"bz\"}\n");
  EXPECT_THAT(examples[0].ids, ElementsAre('x', 256, 'z', kEnd));
  EXPECT_THAT(examples[0].learned, ElementsAre(0, 1, 1, 1));
  const Example marked = encode_marked(tokenizer_, {"xabzab", {{2, 4}, {5, 6}}});
  EXPECT_THAT(marked.ids, ElementsAre('x', 256, 'z', 256));
  EXPECT_THAT(marked.learned, ElementsAre(0, 1, 1, 1));
  // And one across the end is not.
  EXPECT_THAT(encode_marked(tokenizer_, {"xab", {{0, 2}}}).learned, ElementsAre(1, 0));
}

TEST_F(ExampleFile, LongOnesAreDroppedTruncatedOrRefused) {
  constexpr char kLines[] =
      "{\"prompt\": \"xyz\", \"completion\": \"uvw\"}\n"
      "{\"prompt\": \"x\", \"completion\": \"u\"}\n"
      "{\"prompt\": \"xyzxyz\", \"completion\": \"u\"}\n";
  EXPECT_EQ(read(kLines, 6).size(), 2u);  // 7 ids make a sequence of 6 tokens
  EXPECT_EQ(counts_.dropped, 1);
  EXPECT_EQ(read(kLines, 4).size(), 1u);
  EXPECT_EQ(counts_.dropped, 2);
  const auto cut = read(kLines, 4, config::Overlong::truncate);
  ASSERT_EQ(cut.size(), 2u);
  EXPECT_THAT(cut[0].ids, ElementsAre('x', 'y', 'z', 'u', 'v'));
  EXPECT_EQ(counts_.truncated, 1);
  EXPECT_EQ(counts_.dropped, 1);  // of the third no answer is left
  EXPECT_THAT(fault(kLines, 4), AllOf(HasSubstr("a.jsonl:1: is 6 tokens long, and samples have 4"),
                                      EndsWith("drop or truncate")));
}

class TwoSides : public ExampleFile {
 protected:
  TwoSides() {
    start_ = 7;
    most_read_ = 100;
  }
};

/// The prompt is read, the answer learned from its first token to its end.
TEST_F(TwoSides, OfAnEncoderDecoder) {
  const auto examples = read(
      "{\"prompt\": \"xa\", \"completion\": \" bz\"}\n"
      "{\"input\": \"q\", \"output\": \"ab\"}\n"
      "{\"prompt\": \"\", \"completion\": \"z\"}\n");
  ASSERT_EQ(examples.size(), 3u);
  EXPECT_THAT(examples[0].read, ElementsAre('x', 'a'));
  EXPECT_THAT(examples[0].ids, ElementsAre(7, 'b', 'z', kEnd));
  EXPECT_THAT(examples[0].learned, ElementsAre(0, 1, 1, 1));
  EXPECT_EQ(examples[0].tokens(), 3);
  EXPECT_THAT(examples[1].read, ElementsAre('q'));
  EXPECT_THAT(examples[1].ids, ElementsAre(7, 256, kEnd));
  EXPECT_THAT(examples[2].read, ElementsAre(kEnd));
  before_ = {300, 301};
  const auto behind = read("{\"prompt\": \"x\", \"completion\": \"z\"}\n");
  EXPECT_THAT(behind[0].read, ElementsAre(300, 301, 'x'));
  EXPECT_THAT(behind[0].ids, ElementsAre(7, 'z', kEnd));
  for (const char* const blank : {" ", "\\t", " \\n\\r\\n"})
    EXPECT_THAT(fault(fmt::format(R"({{"prompt": "x", "completion": "{}"}})", blank)),
                HasSubstr("a.jsonl:1: has nothing to learn: its answer is white space alone"));
}

/// Each turn answers all that stands before it.
TEST_F(TwoSides, OfAChatEachTurnIsAnAnswer) {
  const auto examples = read(
      R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}, )"
      R"({"role": "user", "content": "z"}, {"role": "assistant", "content": "ab"}]})");
  ASSERT_EQ(examples.size(), 2u);
  EXPECT_EQ(tokenizer_.decode(examples[0].read, true), "ux<|endoftext|>\na");
  EXPECT_THAT(examples[0].ids, ElementsAre(7, 'y', kEnd));
  EXPECT_EQ(tokenizer_.decode(examples[1].read, true),
            "ux<|endoftext|>\nay<|endoftext|>\nuz<|endoftext|>\na");
  EXPECT_THAT(examples[1].ids, ElementsAre(7, 256, kEnd));
}

TEST_F(TwoSides, LongOnesSayWhichSide) {
  constexpr char kLines[] =
      "{\"prompt\": \"xyz<|endoftext|>\", \"completion\": \"u\"}\n"
      "{\"prompt\": \"x\", \"completion\": \"uvw\"}\n"
      "{\"prompt\": \"xy\", \"completion\": \"u\"}\n";
  most_read_ = 3;
  EXPECT_EQ(read(kLines, 3).size(), 1u);
  EXPECT_EQ(counts_.dropped, 2);
  EXPECT_EQ(counts_.long_read, 1);
  const auto cut = read(kLines, 3, config::Overlong::truncate);
  ASSERT_EQ(cut.size(), 3u);
  EXPECT_THAT(cut[0].read, ElementsAre('x', 'y', kEnd));
  EXPECT_THAT(cut[0].ids, ElementsAre(7, 'u', kEnd));
  EXPECT_THAT(cut[1].ids, ElementsAre(7, 'u', 'v', kEnd));
  EXPECT_THAT(cut[1].learned, ElementsAre(0, 1, 1, 1));
  EXPECT_EQ(counts_.truncated, 2);
  EXPECT_THAT(fault(kLines, 3),
              AllOf(HasSubstr("a.jsonl:1: has a prompt of 4 tokens, and samples have 3 for it"),
                    HasSubstr("set a larger train.sequence_length"), EndsWith("drop or truncate")));
  most_read_ = 4;
  EXPECT_THAT(fault(kLines, 3),
              AllOf(HasSubstr("a.jsonl:2: has an answer of 4 tokens, and samples have 3 for it"),
                    HasSubstr("set a larger tune.answer_length")));
  const char* const kNone = "{\"prompt\": \"x\", \"completion\": \"uvw\"}\n";
  EXPECT_THAT(fault(kNone, 3, config::Overlong::drop),
              HasSubstr("a sample of 4 tokens to read and 3 to answer among 1 lines; set a larger "
                        "tune.answer_length"));
}

TEST_F(ExampleFile, FaultsNameTheLine) {
  EXPECT_THAT(fault("{\"input\": \"q\", \"output\": \"a\"}\n\n{\"input\": 3}\n"),
              HasSubstr("a.jsonl:3: has no field \"output\""));
  EXPECT_THAT(fault("{\"input\": \"q\", \"output\": \"a\"}\n{"),
              HasSubstr("a.jsonl:2: is not JSON"));
  EXPECT_THAT(fault("\n\n"), HasSubstr("recipe: tune.validation: no example"));
  EXPECT_THAT(fault("{\"prompt\": \"xyz\", \"completion\": \"uvw\"}\n", 2, config::Overlong::drop),
              HasSubstr("set a larger train.sequence_length"));
  EXPECT_THAT(fault(R"({"messages": [{"role": "user", "content": "q"}]})"),
              HasSubstr("a.jsonl:1: has no assistant's turn"));
}

}  // namespace
}  // namespace megalith::tune
