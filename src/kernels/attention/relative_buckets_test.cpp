// SPDX-License-Identifier: Apache-2.0
// Where buckets begin, against transformers' T5: tests/oracle/relative_oracle.py reads the table
// below and holds it to that library, distance by distance.
#include "kernels/attention/relative_buckets.h"

#include <gtest/gtest.h>

#include <vector>

namespace megalith::kernels {
namespace {

struct Begins {
  RelativeBuckets buckets;
  std::vector<int64_t> first;  // distance of each bucket of keys before the query
};

const std::vector<Begins>& begins() {
  // clang-format off
  static const std::vector<Begins> all = {
      {{32, 128, true}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91}},
      {{32, 128, false}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 19, 21, 24, 27,
                          31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113}},
      {{64, 256, true}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 23, 27, 32,
                         39, 46, 54, 64, 77, 91, 108, 128, 153, 182, 216}},
      {{16, 64, false}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 14, 18, 23, 30, 39, 50}},
      {{8, 20, false}, {0, 1, 2, 3, 4, 6, 9, 14}},
      {{16, 40, true}, {0, 1, 2, 3, 4, 8, 13, 23}},
      {{4, 2, true}, {0, 1}},
      {{32, 500, false}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 25, 31, 38,
                          47, 59, 73, 90, 111, 138, 171, 212, 263, 326, 404}},
  };
  // clang-format on
  return all;
}

TEST(RelativeBuckets, BeginWhereTheyBeginInT5) {
  for (const auto& [buckets, first] : begins()) {
    const int64_t sides = buckets.bidirectional ? 2 : 1;
    ASSERT_EQ(std::ssize(first) * sides, buckets.count);
    int64_t bucket = 0;
    for (int64_t away = 0; away < 4 * buckets.max_distance; ++away) {
      if (bucket + 1 < std::ssize(first) && away == first[static_cast<size_t>(bucket) + 1])
        ++bucket;
      EXPECT_EQ(buckets.of(-away), bucket) << buckets.count << " " << away;
      if (away == 0) continue;
      EXPECT_EQ(buckets.of(away), sides == 1 ? 0 : std::ssize(first) + bucket)
          << buckets.count << " " << away;
    }
    EXPECT_EQ(bucket + 1, std::ssize(first));
  }
}

TEST(RelativeBuckets, AreOfOneBucketFromTheLargestDistanceOn) {
  for (const int64_t count : {4, 8, 32, 36, 100, 256}) {
    for (const bool bidirectional : {false, true}) {
      for (const int64_t reach : {65, 128, 1000, 4097}) {
        const RelativeBuckets buckets{count, reach, bidirectional};
        ASSERT_EQ(buckets.fault().empty(), reach > count / (bidirectional ? 4 : 2));
        if (!buckets.fault().empty()) continue;
        const int64_t last = (bidirectional ? count / 2 : count) - 1;
        int64_t before = 0;
        for (int64_t away = 0; away <= 2 * reach; ++away) {
          const int64_t bucket = buckets.of(-away);
          EXPECT_GE(bucket, before);
          before = bucket;
          if (away >= reach) {
            EXPECT_EQ(bucket, last) << count << " " << reach << " " << away;
          }
        }
      }
    }
  }
}

TEST(RelativeBuckets, SayWhatTheyCannotBe) {
  EXPECT_EQ((RelativeBuckets{32, 128, true}.fault()), "");
  EXPECT_EQ((RelativeBuckets{31, 128, false}.fault()),
            "31 buckets of distances; of 1 side they are a multiple of 2");
  EXPECT_EQ((RelativeBuckets{30, 128, true}.fault()),
            "30 buckets of distances; of 2 sides they are a multiple of 4");
  EXPECT_EQ((RelativeBuckets{32, 16, false}.fault()),
            "buckets of distances up to 16, of which 16 are single ones");
  EXPECT_NE((RelativeBuckets{0, 128, false}.fault()), "");
}

}  // namespace
}  // namespace megalith::kernels
