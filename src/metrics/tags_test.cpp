// SPDX-License-Identifier: Apache-2.0
// Numbers are seqeval 1.2.2's on the same tags (its default mode), worked out by hand.
#include "metrics/tags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace megalith::metrics {
namespace {

using ::testing::ElementsAre;
using Tags = std::vector<std::string_view>;
using Named = Scores::value_type;

TEST(Entities, BeginAndEndWithTheirTags) {
  EXPECT_THAT(entities_of(Tags{"B-PER", "I-PER", "O", "B-LOC"}),
              ElementsAre(Entity{"PER", 0, 2}, Entity{"LOC", 3, 4}));
  // Behind O, or of another type, an I begins one too.
  EXPECT_THAT(entities_of(Tags{"O", "I-PER", "I-LOC", "I-LOC"}),
              ElementsAre(Entity{"PER", 1, 2}, Entity{"LOC", 2, 4}));
  EXPECT_THAT(entities_of(Tags{"B-PER", "B-PER", "I-LOC"}),
              ElementsAre(Entity{"PER", 0, 1}, Entity{"PER", 1, 2}, Entity{"LOC", 2, 3}));
  EXPECT_THAT(entities_of(Tags{"S-A", "I-A", "E-A", "I-A"}),
              ElementsAre(Entity{"A", 0, 1}, Entity{"A", 1, 3}, Entity{"A", 3, 4}));
  EXPECT_THAT(entities_of(Tags{"O", "O"}), ElementsAre());
  EXPECT_THAT(entities_of({}), ElementsAre());
}

TEST(Entities, AreMarkedByNamesOfTheForm) {
  using Names = std::vector<std::string>;
  EXPECT_TRUE(mark_entities(Names{"O", "B-PER", "I-PER"}));
  EXPECT_TRUE(mark_entities(Names{"B-X", "E-X"}));
  EXPECT_FALSE(mark_entities(Names{"O"}));
  EXPECT_FALSE(mark_entities(Names{"NOUN", "VERB"}));
  EXPECT_FALSE(mark_entities(Names{"B-PER", "other"}));
  EXPECT_FALSE(mark_entities(Names{}));
}

TEST(Tags, ScoresAreOfWholeEntities) {
  const std::vector<std::string> names = {"O", "B-PER", "I-PER", "B-LOC", "I-LOC"};
  using Numbers = std::vector<double>;
  // One of two is found, and one with a wrong end.
  EXPECT_THAT(scores_of_tags(names, Numbers{1, 2, 0, 3, 4, 0, 0}, Numbers{1, 2, 0, 3, 0, 0, 0},
                             Numbers{3, 4}),
              ElementsAre(Named("f1", 0.5), Named("precision", 0.5), Named("recall", 0.5),
                          Named("accuracy", 6.0 / 7)));
  EXPECT_THAT(scores_of_tags(names, Numbers{1, 1, 1, 1}, Numbers{1, 0, 3, 0}, Numbers{4}),
              ElementsAre(Named("f1", 0.25 / 0.75), Named("precision", 0.5), Named("recall", 0.25),
                          Named("accuracy", 0.25)));
  // A text's end is an entity's end.
  const Scores cut = scores_of_tags(names, Numbers{1, 2, 2, 0}, Numbers{1, 2, 2, 0}, Numbers{2, 2});
  EXPECT_EQ(cut[0].second, 1.0);
  EXPECT_EQ(
      scores_of_tags(names, Numbers{1, 2, 2, 0}, Numbers{1, 0, 2, 0}, Numbers{2, 2})[1].second,
      0.5);
  const Scores none = scores_of_tags(names, Numbers{0, 0}, Numbers{0, 0}, Numbers{2});
  EXPECT_EQ(none[0].second, 0);
  EXPECT_EQ(none[3].second, 1);
}

TEST(Tags, ThatAreNoneHaveNoScore) {
  const std::vector<double> labels{1, 0}, said{1, kNoScore}, lengths{2};
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"O", "B-PER"}, std::vector<std::string>{"NOUN", "VERB"}}) {
    const Scores none = scores_of_tags(names, labels, said, lengths);
    const Scores some = scores_of_tags(names, labels, labels, lengths);
    ASSERT_EQ(none.size(), some.size());
    for (size_t i = 0; i < none.size(); ++i) {
      EXPECT_EQ(none[i].first, some[i].first);
      EXPECT_TRUE(std::isnan(none[i].second)) << none[i].first;
    }
  }
}

TEST(Tags, WithoutEntitiesTheAccuracyIsAll) {
  const std::vector<std::string> names = {"NOUN", "VERB"};
  EXPECT_THAT(scores_of_tags(names, std::vector<double>{0, 1, 1, 0},
                             std::vector<double>{0, 1, 0, 0}, std::vector<double>{4}),
              ElementsAre(Named("accuracy", 0.75)));
}

}  // namespace
}  // namespace megalith::metrics
