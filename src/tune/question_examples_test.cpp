// SPDX-License-Identifier: Apache-2.0
#include "tune/question_examples.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "tune/file_fixture.h"

namespace megalith::tune {
namespace {

using metrics::Scores;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsNan;
using ::testing::Pair;

/// Two questions about one text, each in two windows, and in another file one without an answer.
class QuestionExamples : public FileTest {
 protected:
  QuestionExamples() {
    const std::string about =
        put("a.json", R"({"data": [{"paragraphs": [{"context": "a b c d e", "qas": [
            {"id": "1", "question": "who", "answers": [{"text": "d", "answer_start": 6}]},
            {"id": "2", "question": "who", "answers": [{"text": "a b", "answer_start": 0}]}
            ]}]}]})");
    const std::string none = put("b.json", R"({"data": [{"paragraphs": [{"context": "b c", "qas": [
            {"id": "1", "question": "who", "answers": []}]}]}]})");
    examples_ = read_questions({about, none}, words_, rule_, counts_, &asked_);
  }
  /// With samples of this many tokens.
  AnswerJudge judge_of(int64_t length) {
    source_ = std::make_shared<const ExampleSource>(
        examples_,
        ExampleSourceOptions{
            .sequence_length = length, .vocab_size = 20, .shuffle = false, .spans = true});
    return {asked_, source_};
  }
  /// What is kept of samples [first, first + count) of a model that is sure of `said_`, and of
  /// nothing else.
  std::vector<double> kept(const AnswerJudge& judge, int64_t first, int64_t count) const {
    data::HostBatch batch;
    source_->fill(first, count, batch);
    std::vector<double> y_TO(2 * batch.ids_T.size(), -5), numbers;
    size_t sequence = 0;
    for (int64_t n = first; n < first + count; ++n) {
      for (const int64_t example : source_->examples_of(n)) {
        const auto [begin, end] = said_[static_cast<size_t>(example)];
        const auto at = static_cast<size_t>(batch.cu_seqlens[sequence++]);
        y_TO[2 * (at + begin)] = sure_;
        y_TO[2 * (at + end) + 1] = 5;
      }
      if (sequence < batch.sequence_sample.size() && batch.sequence_sample[sequence] == n)
        ++sequence;
    }
    EXPECT_EQ(sequence, batch.sequence_sample.size());
    judge.keep(batch, y_TO, numbers);
    return numbers;
  }

  text::Tokenizer words_ =
      text::parse(text::small_wordpiece({"who", "a", "b", "c", "d", "e", "##x"}));
  questions::WindowRule rule_{.most_tokens = 7, .stride = 1};
  AskedQuestions asked_;
  std::vector<Example> examples_;
  std::shared_ptr<const ExampleSource> source_;
  /// Tokens of each window: [CLS] who [SEP], then a b c, c d e, a b c, c d e, or b c. All is right.
  std::vector<std::pair<size_t, size_t>> said_ = {{0, 0}, {4, 4}, {3, 4}, {0, 0}, {0, 0}};
  double sure_ = 5;
};

TEST_F(QuestionExamples, AreWindowsWithTheirTargets) {
  ASSERT_EQ(examples_.size(), 5u);
  EXPECT_EQ(counts_.lines, 3);
  const auto target = [&](size_t i) {
    return std::pair(examples_[i].target->label, examples_[i].target->last);
  };
  EXPECT_THAT((std::vector{target(0), target(1), target(2), target(3), target(4)}),
              ElementsAre(Pair(0, 0), Pair(4, 4), Pair(3, 4), Pair(0, 0), Pair(0, 0)));
  EXPECT_THAT(examples_[1].types, ElementsAre(0, 0, 0, 1, 1, 1, 1));
  EXPECT_THAT(asked_.begins, ElementsAre(0, 2, 4, 5));
  EXPECT_TRUE(asked_.set.has_unanswerable);
  EXPECT_EQ(asked_.set.contexts[asked_.set.questions[2].context], "b c");
  EXPECT_THAT(asked_.windows[1].ids, IsEmpty());
  EXPECT_EQ(asked_.windows[1].places.front(), (text::TextRange{4, 5}));
}

TEST_F(QuestionExamples, OfAValidationAreScoredAsAnswers) {
  const AnswerJudge judge = judge_of(20);
  // The short window fills what two long ones leave, so questions lie in no order.
  ASSERT_EQ(source_->samples_per_epoch(), 2);
  EXPECT_THAT(source_->examples_of(0), ElementsAre(0, 1, 4));
  EXPECT_THAT(judge.scores(2, kept(judge, 0, 2)),
              ElementsAre(Pair("exact_match", 100), Pair("f1", 100), Pair("answerable_f1", 100),
                          Pair("unanswerable_f1", 100)));
  // What fills a sample is no window.
  const AnswerJudge filled = judge_of(15);
  ASSERT_EQ(source_->samples_per_epoch(), 3);
  EXPECT_EQ(filled.scores(3, kept(filled, 0, 3)).front().second, 100);
}

TEST_F(QuestionExamples, AreScoredAlikeHoweverTheyAreRead) {
  const AnswerJudge judge = judge_of(20);
  said_[2] = {3, 3};  // "a", which SQuAD takes for an article
  said_[4] = {4, 4};
  const Scores half = judge.scores(2, kept(judge, 0, 2));
  EXPECT_THAT(half, ElementsAre(Pair("exact_match", 100.0 / 3), Pair("f1", 100.0 / 3),
                                Pair("answerable_f1", 50), Pair("unanswerable_f1", 0)));
  // Micro-batches and data ranks keep the same numbers.
  std::vector<double> parts = kept(judge, 0, 1);
  const std::vector<double> second = kept(judge, 1, 1);
  parts.insert(parts.end(), second.begin(), second.end());
  EXPECT_EQ(parts, kept(judge, 0, 2));
  EXPECT_EQ(parts.size(), 4 * 5u);
}

TEST_F(QuestionExamples, OfWhichOneWindowWasNotReadAreNotScored) {
  const AnswerJudge judge = judge_of(7);
  ASSERT_EQ(source_->samples_per_epoch(), 5);
  const auto scored = [&](int64_t samples) {
    return judge.scores(samples, kept(judge, 0, samples));
  };
  EXPECT_THAT(judge.whole_questions(1), IsEmpty());
  EXPECT_THAT(scored(1), IsEmpty());
  EXPECT_THAT(judge.whole_questions(3), ElementsAre(0));
  said_[2] = {0, 0};  // wrong, but that there is an answer may stand in the next sample
  EXPECT_THAT(scored(3), ElementsAre(Pair("exact_match", 100), Pair("f1", 100)));
  EXPECT_THAT(judge.whole_questions(4), ElementsAre(0, 1));
  EXPECT_THAT(scored(4), ElementsAre(Pair("exact_match", 50), Pair("f1", 50)));
  EXPECT_EQ(std::ssize(judge.whole_questions(5)), judge.num_questions());
}

/// Ranks whose scores might differ are told apart, also where their examples are the same.
TEST_F(QuestionExamples, HaveAFingerprintOfAllThatScoresComeFrom) {
  const std::string same = judge_of(7).fingerprint();
  EXPECT_EQ(judge_of(20).fingerprint(), same);
  const auto changed = [&](void (*change)(AskedQuestions&)) {
    const AskedQuestions before = asked_;
    change(asked_);
    const std::string other = judge_of(7).fingerprint();
    asked_ = before;
    return other;
  };
  EXPECT_EQ(changed([](AskedQuestions& asked) { asked.set.questions[0].id = "other"; }), same);
  const std::vector<std::string> all{
      changed([](AskedQuestions& asked) { asked.set.contexts[0].back() = 'x'; }),
      changed([](AskedQuestions& asked) { asked.set.questions[0].context = 1; }),
      changed([](AskedQuestions& asked) { asked.set.questions[0].answers[0].text = "D"; }),
      changed([](AskedQuestions& asked) {
        asked.set.questions[1].answers.push_back({"c", 4});
      }),
      changed([](AskedQuestions& asked) { asked.set.has_unanswerable = false; }),
      changed([](AskedQuestions& asked) { ++asked.windows[3].places[0].end; }),
      changed([](AskedQuestions& asked) { ++asked.windows[3].context_begin; }),
      changed([](AskedQuestions& asked) { --asked.begins[1]; })};
  EXPECT_THAT(all, ::testing::Each(::testing::Ne(same)));
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
}

TEST_F(QuestionExamples, OfAModelWithoutNumbersHaveNoScore) {
  const AnswerJudge judge = judge_of(7);
  sure_ = std::nan("");
  const Scores scores = judge.scores(5, kept(judge, 0, 5));
  ASSERT_EQ(scores.size(), 4u);
  for (const auto& [name, value] : scores) EXPECT_THAT(value, IsNan()) << name;
}

}  // namespace
}  // namespace megalith::tune
