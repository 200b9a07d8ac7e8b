// SPDX-License-Identifier: Apache-2.0
// What the harness's own functions make of the same records.
#include "tasks/preparation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tasks/document_fixture.h"

namespace megalith::tasks {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(HellaSwag, LosesTheTracesOfWikiHow) {
  Document document = document_of(
      R"({"activity_label": "Cooking", "ctx_a": " How to [header] boil an egg [title] First.",
          "ctx_b": "a POT", "label": "1",
          "endings": [" one [step] two", "three [title] four  five", "six [a\nb] seven"]})");
  prepare_hellaswag(document);
  EXPECT_EQ(document.text("query"), "Cooking: How to boil an egg. First. A pot");
  EXPECT_THAT(document.texts("choices"),
              ElementsAre("one two", "three. four five", "six [a\nb] seven"));
  EXPECT_EQ(document.field("gold").whole(), 1);
}

TEST(WinoGrande, PutsEitherOptionIntoTheBlank) {
  Document document = document_of(
      R"({"sentence": "The trophy is _ than the case . ", "option1": "larger",
          "option2": "smaller", "answer": "2"})");
  prepare_winogrande(document);
  EXPECT_THAT(document.texts("contexts"),
              ElementsAre("The trophy is larger", "The trophy is smaller"));
  EXPECT_EQ(document.text("rest"), "than the case .");
  EXPECT_EQ(document.field("gold").whole(), 1);
}

TEST(ScienceQuestions, AreReadInBothForms) {
  Document exported = document_of(
      R"({"question": "Why?", "choices": {"text": ["a", "b"], "label": ["1", "2"]},
          "answerKey": "2"})");
  Document raw = document_of(
      R"({"question": {"stem": "Why?", "choices": [{"text": "a", "label": "A"},
          {"text": "b", "label": "B"}]}, "answerKey": "B"})");
  for (Document* const document : {&exported, &raw}) {
    prepare_science_question(*document);
    EXPECT_EQ(document->text("question"), "Why?");
    EXPECT_THAT(document->texts("options"), ElementsAre("a", "b"));
    EXPECT_EQ(document->field("gold").whole(), 1);
  }
  Document wrong = document_of(
      R"({"question": "Why?", "choices": {"text": ["a"], "label": ["A"]}, "answerKey": "E"})");
  try {
    prepare_science_question(wrong);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("sets/x.jsonl:3: \"answerKey\" is \"E\""));
  }
}

constexpr const char* kProblems =
    R"([{'question': 'Who is  _  .', 'answer': 'B', 'options': ['a', "b's", 'c', 'd']},
        {'question': 'Why?', 'answer': 'A', 'options': ['e', 'f', 'g', 'h']},
        {'question': 'Last?', 'answer': 'D', 'options': ['i', 'j', 'k', 'l']}])";

TEST(Race, AsksTheLastProblemBehindTheOthers) {
  Document document = document_of("{\"article\": \"Text.\"}");
  set_field(document, "problems", text_value(kProblems), true);
  Document nemo = document;
  prepare_race(document);
  EXPECT_EQ(document.text("query"),
            "Article: Text.\n\nWho is b's\nQuestion: Why?\nAnswer: e\nLast?");
  EXPECT_THAT(document.texts("options"), ElementsAre("i", "j", "k", "l"));
  EXPECT_EQ(document.field("gold").whole(), 3);
  prepare_race_nemo(nemo);
  EXPECT_EQ(nemo.text("query"),
            "Article: Text.\n\nQuestion: Who is  _  .\nAnswer: b's\nQuestion: Why?\nAnswer: e\n"
            "Question: Last?\nAnswer:");
}

TEST(Race, RowsOfOneArticleAreOneDocument) {
  const char* const row =
      R"({"article": "%", "question": "Q%?", "options": ["a", "b", "c", "d"], "answer": "C"})";
  std::vector<Document> rows;
  for (const char* const article : {"x", "x", "y"}) {
    std::string line = row;
    while (line.find('%') != std::string::npos) line.replace(line.find('%'), 1, article);
    rows.push_back(document_of(line));
  }
  std::vector<Document> articles = group_race(std::move(rows));
  ASSERT_EQ(articles.size(), 2U);
  prepare_race(articles[0]);
  EXPECT_EQ(articles[0].text("query"), "Article: x\n\nQuestion: Qx?\nAnswer: c\nQx?");
}

TEST(WikiText, LosesTheSpacesOfItsTokens) {
  EXPECT_EQ(detokenized_wikitext("= = = Head = = =\n the players ' ball , ( which was 10 @,@ 000 "
                                 "@.@ 5 m ) : \" It ' s red \" ; two @-@ fold . N = 3\n He 's"),
            "=== Head ===\nthe players'ball, (which was 10,000.5 m): \"It' s red\"; two-fold. 1 "
            "= 3\nHe's");
  EXPECT_EQ(detokenized_wikitext("a [ b ] { c } ( d"), "a [b] {c} ( d");
  EXPECT_EQ(detokenized_wikitext("x /' 3/' 4/ y"), "x /'[0-9]/' 4/ y");
}

TEST(Lambada, OfNemoHasPlainQuotes) {
  Document document = document_of(R"({"text": " “So,” she said, ‘it’s done "})");
  prepare_lambada_nemo(document);
  EXPECT_EQ(document.text("context"), "\n\"So,\" she said, 'it's");
  EXPECT_EQ(document.text("last"), " done");
}

TEST(Preparation, NamesWhatIsMissing) {
  Document document = document_of(R"({"ctx_a": "a", "ctx_b": "b", "endings": ["c"]})");
  try {
    prepare_hellaswag(document);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("sets/x.jsonl:3: there is no field \"activity_label\"; the fields are "
                          "ctx_a, ctx_b, endings"));
  }
}

}  // namespace
}  // namespace megalith::tasks
