// SPDX-License-Identifier: Apache-2.0
#include "objectives/sentence_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

namespace megalith::objectives {
namespace {

using testing::ElementsAre;

std::tuple<int64_t, int64_t, int32_t> said(const SentenceRow& row) {
  return {row.begin, row.end, row.wanted};
}
std::vector<std::tuple<int64_t, int64_t, int32_t>> said(const std::vector<SentenceRow>& rows) {
  std::vector<std::tuple<int64_t, int64_t, int32_t>> list;
  for (const SentenceRow& row : rows) list.push_back(said(row));
  return list;
}
std::tuple<int64_t, int64_t, int32_t> row(int64_t begin, int64_t end, int32_t wanted) {
  return {begin, end, wanted};
}

/// Sentence i has (step i) % modulus + 1 tokens.
std::vector<int32_t> lengths(int32_t count, int32_t step, int32_t modulus) {
  std::vector<int32_t> list;
  for (int32_t i = 0; i < count; ++i) list.push_back(step * i % modulus + 1);
  return list;
}

// A document of one sentence, an empty one, and one with a long sentence have none. The expected
// rows of both tests were worked out apart from this code, with generators whose ten-thousandth
// numbers are those of the C++ standard.
TEST(SentenceRows, AreThoseOfMegatron) {
  std::vector<int32_t> tokens = lengths(60, 7, 23);
  tokens[33] = 600;
  const std::vector<int64_t> documents = {0, 12, 13, 13, 30, 36, 60};
  std::vector<SentenceRow> rows =
      sentence_rows(tokens, documents, {.most_tokens = 40, .seed = 1234});
  EXPECT_THAT(said(rows), ElementsAre(row(0, 4, 40), row(4, 8, 40), row(8, 12, 40), row(13, 16, 40),
                                      row(16, 20, 40), row(20, 26, 40), row(26, 30, 40),
                                      row(36, 39, 40), row(39, 43, 40), row(43, 49, 40),
                                      row(49, 52, 40), row(52, 56, 40), row(56, 60, 40)));
  EXPECT_EQ(rows[2].document, 0);
  EXPECT_EQ(rows[3].document, 3);
  EXPECT_EQ(rows.back().document, 5);
  shuffle_rows(rows, 1234);
  EXPECT_THAT(
      said(rows),
      ElementsAre(row(43, 49, 40), row(8, 12, 40), row(4, 8, 40), row(16, 20, 40), row(39, 43, 40),
                  row(26, 30, 40), row(13, 16, 40), row(52, 56, 40), row(20, 26, 40),
                  row(49, 52, 40), row(0, 4, 40), row(56, 60, 40), row(36, 39, 40)));
}

TEST(SentenceRows, SomeAreShort) {
  std::vector<int64_t> documents;
  for (int64_t d = 0; d <= 4000; d += 16) documents.push_back(d);
  std::vector<SentenceRow> rows =
      sentence_rows(lengths(4000, 5, 31), documents, {.most_tokens = 100, .seed = 7});
  shuffle_rows(rows, 7);
  ASSERT_EQ(rows.size(), 732u);
  EXPECT_EQ(said(rows[0]), row(344, 350, 100));
  EXPECT_EQ(said(rows[1]), row(2795, 2800, 100));
  EXPECT_EQ(std::ranges::count_if(rows, [](const auto& r) { return r.wanted != 100; }), 85);
  int64_t digest = 0;
  for (size_t i = 0; i < rows.size(); ++i)
    digest += static_cast<int64_t>(i + 1) * (3 * rows[i].begin + 5 * rows[i].end + rows[i].wanted);
  EXPECT_EQ(digest, 4351899715);
}

// Of a part of a corpus the sentences keep their numbers.
TEST(SentenceRows, BeginWhereTheDocumentsDo) {
  const std::vector<int32_t> tokens = lengths(20, 7, 23);
  const std::vector<int64_t> documents = {4, 12, 20};
  const auto part = sentence_rows(std::span(tokens).subspan(4), documents, {.most_tokens = 1000});
  EXPECT_THAT(said(part), ElementsAre(row(4, 12, 1000), row(12, 20, 1000)));
}

}  // namespace
}  // namespace megalith::objectives
