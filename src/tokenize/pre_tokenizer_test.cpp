// SPDX-License-Identifier: Apache-2.0
// Expected words are those of Hugging Face tokenizers 0.23.3.
#include "tokenize/pre_tokenizer.h"

#include <gtest/gtest.h>

namespace megalith::tokenize {
namespace {

using List = std::vector<std::string>;

List cut(std::vector<PreTokenizerStep> steps, std::string_view text, bool at_start = true) {
  Words words;
  PreTokenizer(std::move(steps)).cut(text, at_start, words);
  List list;
  for (const Words::Word word : words.words)
    list.emplace_back(words.text.substr(word.begin, word.end - word.begin));
  return list;
}

const std::string kMark = "\xE2\x96\x81";

TEST(PreTokenizer, WordsOfEachKind) {
  EXPECT_EQ(cut({BertWords{}}, "Hey friend!  How're\xC2\xA0you?!"),
            (List{"Hey", "friend", "!", "How", "'", "re", "you", "?", "!"}));
  EXPECT_EQ(cut({BertWords{}},
                "a$b\xE2\x82\xAC"
                "c\xE3\x80\x82"),
            (List{"a", "$",
                  "b\xE2\x82\xAC"
                  "c",
                  "\xE3\x80\x82"}));
  EXPECT_EQ(cut({BertWords{}}, " \n "), (List{}));
  EXPECT_EQ(cut({WordRuns{}}, "don't a_b  ?! 3.5"),
            (List{"don", "'", "t", "a_b", "?!", "3", ".", "5"}));
  EXPECT_EQ(cut({SpaceSplit{}}, " a!b\tc "), (List{"a!b", "c"}));
  EXPECT_EQ(cut({DigitSplit{}}, "a12b3"), (List{"a", "12", "b", "3"}));
  EXPECT_EQ(cut({DigitSplit{true}}, "a12\xC2\xBD"), (List{"a", "1", "2", "\xC2\xBD"}));
  EXPECT_EQ(cut({DelimiterSplit{"-"}}, "-a--b"), (List{"a", "b"}));
}

TEST(PreTokenizer, BehaviorsOfASplit) {
  const auto split = [](SplitBehavior behavior, bool invert = false) {
    return cut({StringSplit{"-", behavior, invert}}, "-the-final--countdown");
  };
  EXPECT_EQ(split(SplitBehavior::removed), (List{"the", "final", "countdown"}));
  EXPECT_EQ(split(SplitBehavior::isolated),
            (List{"-", "the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(split(SplitBehavior::merged_with_previous),
            (List{"-", "the-", "final-", "-", "countdown"}));
  EXPECT_EQ(split(SplitBehavior::merged_with_next), (List{"-the", "-final", "-", "-countdown"}));
  EXPECT_EQ(split(SplitBehavior::contiguous), (List{"-", "the", "-", "final", "--", "countdown"}));
  EXPECT_EQ(split(SplitBehavior::removed, true), (List{"-", "-", "-", "-"}));
  EXPECT_EQ(cut({PunctuationSplit{SplitBehavior::contiguous}}, "a,.b"), (List{"a", ",.", "b"}));
}

TEST(PreTokenizer, MetaspaceMarksWords) {
  using Scheme = Metaspace::Scheme;
  EXPECT_EQ(cut({Metaspace{}}, "a  b"), (List{kMark + "a", kMark, kMark + "b"}));
  EXPECT_EQ(cut({Metaspace{}}, " a"), (List{kMark + "a"}));
  EXPECT_EQ(cut({Metaspace{kMark, Scheme::never, true}}, "a b"), (List{"a", kMark + "b"}));
  EXPECT_EQ(cut({Metaspace{kMark, Scheme::first, true}}, "a b"), (List{kMark + "a", kMark + "b"}));
  EXPECT_EQ(cut({Metaspace{kMark, Scheme::first, true}}, "a b", false), (List{"a", kMark + "b"}));
  EXPECT_EQ(cut({Metaspace{kMark, Scheme::always, false}}, "a b"),
            (List{kMark + "a" + kMark + "b"}));
  // Only the first of several words lies at the start, and only if nothing went before it.
  const PreTokenizerStep first = Metaspace{kMark, Scheme::first, true};
  EXPECT_EQ(cut({SpaceSplit{}, first}, "a b"), (List{kMark + "a", "b"}));
  EXPECT_EQ(cut({SpaceSplit{}, first}, " a b"), (List{"a", "b"}));
  EXPECT_EQ(cut({SpaceSplit{}, Metaspace{}}, "a b"), (List{kMark + "a", kMark + "b"}));
}

TEST(PreTokenizer, ByteLevelComesAfterOtherSteps) {
  EXPECT_EQ(cut({DigitSplit{true}, ByteLevelSplit{.add_prefix_space = false}}, "a 12"),
            (List{"a", "\xC4\xA0", "1", "2"}));
  EXPECT_EQ(cut({SpaceSplit{}, ByteLevelSplit{}}, "a b"), (List{"\xC4\xA0"
                                                                "a",
                                                                "\xC4\xA0"
                                                                "b"}));
  EXPECT_EQ(cut({SpaceSplit{}, ByteLevelSplit{.map_bytes = false}}, "a b"), (List{" a", " b"}));
  EXPECT_EQ(cut({PatternSplit{SplitPattern::llama3}, DigitSplit{}}, "ab12 c"),
            (List{"ab", "12", " c"}));
}

// The common combinations have a scanner, which is then all there is to do.
TEST(PreTokenizer, KnowsWhatAScannerDoes) {
  const ByteLevelSplit bytes{.add_prefix_space = true, .map_bytes = false};
  const ByteLevelSplit only_bytes{
      .add_prefix_space = false, .use_regex = false, .map_bytes = false};
  EXPECT_EQ(PreTokenizer({bytes}).scanner(), word_scanner(SplitPattern::gpt2));
  EXPECT_TRUE(PreTokenizer({bytes}).adds_space());
  EXPECT_EQ(PreTokenizer({PatternSplit{SplitPattern::qwen2}, only_bytes}).scanner(),
            word_scanner(SplitPattern::qwen2));
  EXPECT_EQ(PreTokenizer({DigitSplit{}, only_bytes}).scanner(), nullptr);
  EXPECT_EQ(PreTokenizer({ByteLevelSplit{}}).scanner(), nullptr);  // its model sees characters
}

}  // namespace
}  // namespace megalith::tokenize
