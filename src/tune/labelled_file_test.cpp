// SPDX-License-Identifier: Apache-2.0
#include "tune/labelled_file.h"

#include <gmock/gmock.h>

#include "families/families.h"
#include "tune/classifier.h"
#include "tune/example_source.h"
#include "tune/file_fixture.h"

namespace megalith::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class LabelledFile : public FileTest {
 protected:
  std::vector<Example> read(const std::string& name, std::string_view content,
                            const std::vector<std::string>& labels, int64_t most_tokens = 50,
                            config::Overlong overlong = config::Overlong::drop) {
    counts_ = {};
    return read_labelled({put(name, content)}, tokenizer_, labels,
                         {"tune.data", most_tokens, overlong}, counts_);
  }
  std::string fault(const std::string& name, std::string_view content,
                    const std::vector<std::string>& labels = {"no", "yes"}) {
    return fault_of([&] { read(name, content, labels); });
  }
};

TEST_F(LabelledFile, LinesOfJson) {
  const auto examples = read("a.jsonl",
                             "{\"text\": \"abz\", \"label\": \"yes\"}\n"
                             "{\"sentence1\": \"x\", \"sentence2\": \"y\", \"label\": 0}\n\n"
                             "{\"premise\": \"x\", \"hypothesis\": \"y\", \"label\": \"no\"}",
                             {"no", "yes"});
  ASSERT_EQ(examples.size(), 3u);
  EXPECT_THAT(examples[0].ids, ElementsAre(256, 'z'));
  EXPECT_EQ(examples[0].target->label, 1);
  EXPECT_EQ(examples[0].tokens(), 2);
  EXPECT_THAT(examples[1].ids, ElementsAre('x', 'y'));
  EXPECT_EQ(examples[1].target->label, 0);
  EXPECT_EQ(examples[2].target->label, 0);
}

TEST_F(LabelledFile, Tables) {
  const auto pairs =
      read("a.tsv", "index\tsentence1\tsentence2\tscore\r\n0\tx\ty\t2.5\r\n", {"score"});
  ASSERT_EQ(pairs.size(), 1u);
  EXPECT_EQ(pairs[0].target->number, 2.5f);
  const auto cola = read("b.tsv", "gj04\t1\t\tgood\ngj04\t0\t*\tbad\n", {"bad", "good"});
  ASSERT_EQ(cola.size(), 2u);
  EXPECT_EQ(cola[0].target->label, 1);
  EXPECT_EQ(tokenizer_.decode(cola[1].ids), "bad");
  const auto mrpc =
      read("c.tsv", "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tx\ty\n", {"a", "b"});
  EXPECT_THAT(mrpc[0].ids, ElementsAre('x', 'y'));
}

/// As GLUE's files are: MRPC's begins with a byte-order mark, and not all labels are called so.
TEST_F(LabelledFile, TablesAsTheyAreGiven) {
  const auto label = [&](const char* heading, const char* row) {
    const auto examples = read("a.tsv", std::string(heading) + "\n" + row + "\n", {"a", "b", "c"});
    EXPECT_THAT(examples.at(0).ids, ElementsAre('x', 'y')) << heading;
    return examples.at(0).target->label;
  };
  EXPECT_EQ(label("\xEF\xBB\xBFQuality\t#1 ID\t#2 ID\t#1 String\t#2 String", "1\t7\t8\tx\ty"), 1);
  EXPECT_EQ(label("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "0\t1\t2\tx\ty\t1"), 1);
  EXPECT_EQ(label("index\tgenre\tsentence1\tsentence2\tlabel1\tgold_label", "0\tg\tx\ty\tc\tc"), 2);
  EXPECT_EQ(label("index\tquestion\tsentence\tlabel", "0\tx\ty\tb"), 1);
}

TEST_F(LabelledFile, LongOnesAreDropped) {
  EXPECT_EQ(read("a.tsv", "sentence\tlabel\nxyz\tno\nx\tno\n", {"no", "yes"}, 2).size(), 1u);
  EXPECT_EQ(counts_.dropped, 1);
  EXPECT_THAT(
      fault_of([&] {
        read("a.tsv", "sentence\tlabel\nxyz\tno\n", {"no", "yes"}, 2, config::Overlong::refuse);
      }),
      EndsWith("tune.overlong: drop"));  // to truncate is not built
}

TEST_F(LabelledFile, FaultsNameTheLine) {
  EXPECT_THAT(fault("a.jsonl", "{\"text\": \"x\", \"label\": \"maybe\"}"),
              HasSubstr("a.jsonl:1: has a label \"maybe\" that is none of tune.labels"));
  EXPECT_THAT(fault("a.jsonl", "{\"text\": \"x\", \"label\": 2}"),
              HasSubstr("a.jsonl:1: has a label"));
  EXPECT_THAT(fault("a.jsonl", "{\"text\": \"x\"}"), HasSubstr("a.jsonl:1: has no label"));
  EXPECT_THAT(fault("a.jsonl", "{\"label\": 1}"), HasSubstr("a.jsonl:1: has no text"));
  EXPECT_THAT(fault("a.tsv", "sentence\tlabel\nx\tyes\nx\n"), HasSubstr("a.tsv:3: has 1 columns"));
  EXPECT_THAT(fault("a.tsv", "a\tb\n"), HasSubstr("a.tsv:1: names no column of label"));
  for (const char* const number : {"much", "nan", "inf", "1e39", "1e999", "1 "})
    EXPECT_THAT(fault("a.tsv", std::string("sentence\tscore\nx\t") + number + "\n", {"score"}),
                HasSubstr("a.tsv:2: has a label"))
        << number;
  EXPECT_THAT(fault("a.tsv", "sentence\tlabel\n"), HasSubstr("recipe: tune.data: no example"));
}

TEST(LabelledSource, UnitsAreSequences) {
  const Example one{{5, 6, 7}, {0, 0, 0}, {0, 0, 1}, Target{.label = 2}};
  const Example two{{8, 9}, {0, 0}, {0, 0}, Target{.label = 1}};
  const ExampleSource source({one, two},
                             {.sequence_length = 6, .vocab_size = 10, .shuffle = false});
  ASSERT_EQ(source.samples_per_epoch(), 1);
  data::HostBatch batch;
  source.fill(0, 1, batch);
  EXPECT_THAT(batch.ids_T, ElementsAre(5, 6, 7, 8, 9, 0));
  EXPECT_THAT(batch.type_T, ElementsAre(0, 0, 1, 0, 0, 0));
  EXPECT_THAT(batch.cu_seqlens, ElementsAre(0, 3, 5, 6));
  EXPECT_THAT(batch.targets_T, ElementsAre(2, 1, 0));
  EXPECT_THAT(batch.loss_weight_T, ElementsAre(1, 1, 0));
  EXPECT_EQ(batch.total_weight, 2);
}

TEST(Classifier, IsTheFamilysClass) {
  models::ModelSpec bert =
      models::family_named("bert", "test")
          .make({.layers = 1, .hidden = 8, .heads = 2, .context = 8, .vocab = 20}, "test");
  const auto of = [](const models::ModelSpec& model, std::vector<std::string> labels,
                     config::ClassifyTask task = config::ClassifyTask::sequence_classification) {
    config::TuneSection tune;
    tune.model = "test";
    tune.task = task;
    tune.labels = std::move(labels);
    return classifier_of(model, tune);
  };
  const models::ModelSpec made = of(bert, {"no", "yes", "maybe"});
  EXPECT_EQ(made.head.kind, layers::HeadKind::sequence_classification);
  EXPECT_THAT(made.head.labels, ElementsAre("no", "yes", "maybe"));
  EXPECT_EQ(made.head.dense, layers::HeadDense::tanh);
  EXPECT_EQ(of(bert, {"score"}).head.kind, layers::HeadKind::sequence_regression);
  EXPECT_EQ(of(made, {"no", "yes", "maybe"}), made);
  const auto fault = [&](const models::ModelSpec& model) {
    return fault_of([&] { of(model, {"no", "yes"}); });
  };
  EXPECT_THAT(fault(made), HasSubstr("is a classifier of no, yes, maybe"));
  EXPECT_THAT(fault(models::family_named("llama", "test").make({}, "test")),
              HasSubstr("needs an encoder"));
  // Of the same labels, but of something else.
  constexpr auto kTokens = config::ClassifyTask::token_classification;
  const models::ModelSpec tags = of(made, {"no", "yes"}, kTokens);
  EXPECT_EQ(tags.head.kind, layers::HeadKind::token_classification);
  EXPECT_EQ(tags.head.dense, layers::HeadDense::none);
  EXPECT_EQ(of(tags, {"no", "yes"}, kTokens), tags);
  EXPECT_THAT(fault_of([&] {
                of(tags, {"yes", "no"}, kTokens);
              }),
              HasSubstr("is a classifier of no, yes"));
  EXPECT_EQ(of(tags, {"yes", "no"}).head.kind, layers::HeadKind::sequence_classification);
}

}  // namespace
}  // namespace megalith::tune
