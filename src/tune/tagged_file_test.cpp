// SPDX-License-Identifier: Apache-2.0
#include "tune/tagged_file.h"

#include <gmock/gmock.h>

#include "tune/example_source.h"
#include "tune/file_fixture.h"

namespace megalith::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> kNames = {"O", "B-X", "I-X"};
enum Id : int32_t { cls = 2, sep = 3, the, cat, s, sees };

class TaggedFile : public FileTest {
 protected:
  std::vector<Example> read(const std::string& name, std::string_view content,
                            int64_t most_tokens = 50,
                            config::Overlong overlong = config::Overlong::drop) {
    counts_ = {};
    const LengthRule rule{"tune.data", most_tokens, overlong};
    auto examples = read_tagged({put(name, content)}, words_, kNames, rule, counts_);
    require_examples(!examples.empty(), rule, counts_);
    return examples;
  }
  std::string fault(const std::string& name, std::string_view content) {
    return fault_of([&] { read(name, content); });
  }
  text::Tokenizer words_ = text::parse(text::small_wordpiece({"the", "cat", "##s", "sees"}));
};

TEST_F(TaggedFile, LinesOfJson) {
  const auto examples =
      read("a.jsonl",
           "{\"tokens\": [\"The\", \"cats\", \"see!\"], \"ner_tags\": [\"O\", 1, 2]}\n\n"
           "{\"words\": [\"cat\", \"sees\"], \"tags\": [\"B-X\", -100], \"ner_tags\": null}\n");
  ASSERT_EQ(examples.size(), 2u);
  // A label is its word's first token's ("see!" is two, both unknown).
  EXPECT_THAT(examples[0].ids, ElementsAre(cls, the, cat, s, 1, 1, sep));
  EXPECT_THAT(examples[0].labels, ElementsAre(-1, 0, 1, -1, 2, -1, -1));
  EXPECT_EQ(examples[0].tokens(), 7);
  EXPECT_THAT(examples[1].ids, ElementsAre(cls, cat, sees, sep));
  EXPECT_THAT(examples[1].labels, ElementsAre(-1, 1, -1, -1));
  EXPECT_EQ(counts_.lines, 2);
}

TEST_F(TaggedFile, Columns) {
  const auto examples =
      read("a.conll", "-DOCSTART- -X- O\n\nthe DT O\ncats NN B-X\r\n \t\n\nsees\tI-X");
  ASSERT_EQ(examples.size(), 2u);
  EXPECT_THAT(examples[0].ids, ElementsAre(cls, the, cat, s, sep));
  EXPECT_THAT(examples[0].labels, ElementsAre(-1, 0, 1, -1, -1));
  EXPECT_THAT(examples[1].labels, ElementsAre(-1, 2, -1));
}

TEST_F(TaggedFile, ColumnsBeginWithAMarkOrADocument) {
  const auto examples =
      read("a.conll", "\xEF\xBB\xBF-DOCSTART-\n\nthe O\n-DOCSTART-\r\ncat B-X\n-DOCSTART-");
  ASSERT_EQ(examples.size(), 2u);
  EXPECT_THAT(examples[0].ids, ElementsAre(cls, the, sep));
  EXPECT_THAT(examples[1].ids, ElementsAre(cls, cat, sep));
  const auto marked = read("b.conll", "\xEF\xBB\xBFthe O");
  EXPECT_THAT(marked.at(0).ids, ElementsAre(cls, the, sep));
  // Elsewhere it belongs to its word.
  EXPECT_EQ(read("c.conll", "the O\n\xEF\xBB\xBF-DOCSTART- O\n").size(), 1u);
}

TEST_F(TaggedFile, NumbersAreIndicesAndTextsNames) {
  const std::vector<std::string> names = {"1", "0", "2"};
  EXPECT_THAT(
      parse_tagged_line(R"({"tokens": ["a", "b", "c"], "tags": [1, "1", -100]})", names).labels,
      ElementsAre(1, 0, -1));
  const auto fault_of_tag = [](const std::string& tag) {
    return fault_of(
        [&] { parse_tagged_line(R"({"tokens": ["a"], "tags": [)" + tag + "]}", kNames); });
  };
  EXPECT_EQ(fault_of_tag("\"1\""), "has a tag \"1\" that names none of the classes");
  EXPECT_EQ(fault_of_tag("\"-100\""), "has a tag \"-100\" that names none of the classes");
  EXPECT_EQ(fault_of_tag("3"), "has a tag 3 that is none of 3 classes");
  EXPECT_EQ(fault_of_tag("-1"), "has a tag -1 that is none of 3 classes");
  EXPECT_THAT(fault_of_tag("18446744073709551516"),
              HasSubstr("none of 3 classes"));  // -100 mod 2^64
  EXPECT_THAT(fault("a.conll", "the O\ncat 1\n"), HasSubstr("a.conll:2: has a tag \"1\""));
  EXPECT_THAT(read("a.conll", "the O\ncat -100\n").at(0).labels, ElementsAre(-1, 0, -1, -1));
}

TEST_F(TaggedFile, TextsWithoutALabelAreLeftOut) {
  const auto examples = read("a.jsonl",
                             "{\"tokens\": [\"the\"], \"tags\": [-100]}\n"
                             "{\"tokens\": [], \"tags\": []}\n"
                             "{\"tokens\": [\"\", \"cat\"], \"tags\": [1, 0]}\n");
  ASSERT_EQ(examples.size(), 1u);
  EXPECT_THAT(examples[0].labels, ElementsAre(-1, 0, -1));
  EXPECT_EQ(counts_.lines, 3);
  EXPECT_EQ(counts_.unlabelled, 2);
  EXPECT_EQ(counts_.dropped, 0);
  EXPECT_EQ(fault("a.jsonl", "{\"tokens\": [\"the\"], \"tags\": [-100]}"),
            "recipe: tune.data: no text has a word whose tag could be learned");
}

/// As in running text.
TEST_F(TaggedFile, BlanksOfBytesBelongToTheirWords) {
  const text::Tokenizer bytes = text::parse(text::small_tokenizer({{" ", "b"}, {"a", "b"}}));
  TaggedEncoder encoder(bytes);
  const auto example = encoder.encode({{"b", "ab", "", "b"}, {0, 1, 2, 2}}, {"", 50}, counts_);
  EXPECT_EQ(example->ids, bytes.encode("b ab b", true));
  EXPECT_THAT(example->labels, ElementsAre(0, 1, -1, 2));
  // What stands for nothing has no blank behind it.
  EXPECT_EQ(encoder.encode({{"", "b"}, {0, 1}}, {"", 50}, counts_)->ids, bytes.encode("b", true));
}

TEST_F(TaggedFile, LongOnesAreCutBeforeTheEnd) {
  const std::string line = "{\"tokens\": [\"the\", \"cats\"], \"tags\": [0, 1]}\n";
  EXPECT_THAT(fault_of([&] { read("a.jsonl", line, 4); }), HasSubstr("no example that fits"));
  EXPECT_EQ(counts_.dropped, 1);
  const auto cut = read("a.jsonl", line, 4, config::Overlong::truncate);
  EXPECT_THAT(cut.at(0).ids, ElementsAre(cls, the, cat, sep));
  EXPECT_THAT(cut[0].labels, ElementsAre(-1, 0, 1, -1));
  EXPECT_EQ(counts_.truncated, 1);
  EXPECT_THAT(fault_of([&] { read("a.jsonl", line, 2, config::Overlong::truncate); }),
              HasSubstr("no example that fits"));
  EXPECT_THAT(fault_of([&] { read("a.jsonl", line, 4, config::Overlong::refuse); }),
              HasSubstr("a.jsonl:1: is 5 tokens long"));
}

TEST_F(TaggedFile, FaultsNameTheLine) {
  EXPECT_THAT(fault("a.jsonl", "{\"tokens\": [\"the\"], \"tags\": [\"B-Y\"]}"),
              HasSubstr("a.jsonl:1: has a tag \"B-Y\" that names none of the classes"));
  EXPECT_THAT(fault("a.jsonl", "{\"tokens\": [\"the\"], \"tags\": [0, 0]}"),
              HasSubstr("a.jsonl:1: has 1 words and 2 tags"));
  EXPECT_THAT(fault("a.jsonl", "{\"tokens\": \"the\", \"tags\": [0]}"),
              HasSubstr("that is no list"));
  EXPECT_THAT(fault("a.jsonl", "{\"tokens\": [[]], \"tags\": [0]}"), HasSubstr("neither a text"));
  EXPECT_THAT(fault("a.jsonl", "{\"text\": \"the\", \"tags\": [0]}"),
              HasSubstr("a.jsonl:1: has none of the fields tokens, words"));
  EXPECT_THAT(fault("a.txt", "the O\ncats\n"), HasSubstr("a.txt:2: has one column"));
  EXPECT_THAT(fault("a.txt", "the O\ncats B-Y\n"), HasSubstr("a.txt:2: has a tag"));
  EXPECT_THAT(fault("a.txt", "\n"), HasSubstr("recipe: tune.data: no example"));
}

TEST(TaggedSource, UnitsAreTokens) {
  const Example one{{5, 6, 7}, {0, 0, 0}, {}, {}, {-1, 2, -1}};
  const Example two{{8, 9}, {0, 0}, {}, {}, {0, -1}};
  const ExampleSource source({one, two},
                             {.sequence_length = 6, .vocab_size = 10, .shuffle = false});
  ASSERT_EQ(source.samples_per_epoch(), 1);
  EXPECT_EQ(source.num_tokens(), 5);
  EXPECT_EQ(source.num_learned(), 2);
  EXPECT_EQ(source.most_learned(), 0);  // of rows that the head could leave out
  data::HostBatch batch;
  source.fill(0, 1, batch);
  EXPECT_THAT(batch.ids_T, ElementsAre(5, 6, 7, 8, 9, 0));
  EXPECT_THAT(batch.cu_seqlens, ElementsAre(0, 3, 5, 6));
  EXPECT_THAT(batch.targets_T, ElementsAre(-1, 2, -1, 0, -1, -1));
  EXPECT_THAT(batch.loss_weight_T, ElementsAre(0, 1, 0, 1, 0, 0));
  EXPECT_EQ(batch.total_weight, 2);
  Example other = two;
  other.labels[0] = 1;
  EXPECT_NE(source.fingerprint({}),
            ExampleSource({one, other}, {.sequence_length = 6, .vocab_size = 10}).fingerprint({}));
}

}  // namespace
}  // namespace megalith::tune
