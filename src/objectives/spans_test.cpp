// SPDX-License-Identifier: Apache-2.0
#include "objectives/spans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "base/error.h"
#include "math/random.h"

namespace megalith::objectives {
namespace {

using Ids = std::vector<int32_t>;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int32_t kStart = 0, kEnd = 9999, kFirstSentinel = 9000;

SpanTokens tokens(int64_t sentinels) {
  SpanTokens tokens{{}, kStart, kEnd};
  for (int64_t i = 0; i < sentinels; ++i)
    tokens.sentinels.push_back(kFirstSentinel - static_cast<int32_t>(i));
  return tokens;
}

struct Sides {
  Ids encoder, decoder, targets;
};

Sides corrupt(const SpanCounts& counts, uint64_t key, const Ids& text) {
  const auto of = [](int64_t length) { return Ids(static_cast<size_t>(length), -7); };
  Sides s{of(counts.encoder_length()), of(counts.decoder_length()), of(counts.decoder_length())};
  corrupt_sample(counts, tokens(counts.spans), key, text, {s.encoder, s.decoder, s.targets});
  return s;
}

Ids counting(int64_t length) {
  Ids ids(static_cast<size_t>(length));
  std::iota(ids.begin(), ids.end(), 11);
  return ids;
}

bool is_sentinel(int32_t id) { return id > kFirstSentinel - 1000 && id <= kFirstSentinel; }

// T5's: 568 tokens of text make 512 for the encoder and 114 for the decoder.
TEST(Spans, CountsAreThoseOfT5) {
  const auto of = [](double rate, double mean, int64_t length) {
    const SpanCounts c = span_counts({rate, mean}, length);
    return std::tuple(c.raw, c.hidden, c.spans, c.decoder_length());
  };
  EXPECT_EQ(of(0.15, 3, 512), std::tuple(568, 85, 28, 114));
  EXPECT_EQ(of(0.15, 3, 1024), std::tuple(1137, 171, 57, 229));
  EXPECT_EQ(of(0.15, 3, 16), std::tuple(17, 3, 1, 5));
  EXPECT_EQ(of(0.3, 2, 16), std::tuple(18, 5, 2, 8));
  EXPECT_EQ(of(0.5, 3, 64), std::tuple(95, 48, 16, 65));
  EXPECT_EQ(of(0.15, 3, 28), std::tuple(30, 4, 1, 6));  // 4.5 tokens
  EXPECT_EQ(of(0.15, 3, 3), std::tuple(2, 1, 1, 3));
}

TEST(Spans, EveryLengthOfAnEncoderIsMetByTheLongestText) {
  for (const SpanOptions options : {SpanOptions{}, SpanOptions{0.5, 3}, SpanOptions{0.3, 1.5},
                                    SpanOptions{0.01, 1}, SpanOptions{0.62, 4}}) {
    for (int64_t length = 3; length < 700; ++length) {
      const SpanCounts counts = span_counts(options, length);
      EXPECT_EQ(counts.encoder_length(), length);
      EXPECT_GT(counts_of_text(options, counts.raw + 1).encoder_length(), length);
      EXPECT_GE(counts.hidden, counts.spans);
    }
  }
}

TEST(Spans, WhatHasNoPlaceIsRefused) {
  EXPECT_THAT([] { span_counts({}, 2); }, ThrowsMessage<UserError>(HasSubstr("too few for text")));
  EXPECT_THAT(
      [] {
        span_counts({0.9, 1}, 64);
      },
      ThrowsMessage<UserError>(HasSubstr("set a lower rate, or longer spans")));
}

// Values that checkpoints of running trainings rely on: they may never change. From the definition
// in spans.h and Philox4x32-10 of the Random123 paper, worked out apart from this code.
TEST(Spans, HasTheseBits) {
  const SpanCounts counts = span_counts({0.4, 2}, 16);
  ASSERT_EQ(std::tuple(counts.raw, counts.hidden, counts.spans), std::tuple(19, 8, 4));
  const Sides s = corrupt(counts, 52, counting(19));
  EXPECT_THAT(s.encoder, ElementsAre(11, 12, 13, 14, 9000, 17, 8999, 19, 20, 21, 8998, 24, 25, 26,
                                     8997, kEnd));
  EXPECT_THAT(s.decoder,
              ElementsAre(kStart, 9000, 15, 16, 8999, 18, 8998, 22, 23, 8997, 27, 28, 29));
  EXPECT_THAT(s.targets, ElementsAre(9000, 15, 16, 8999, 18, 8998, 22, 23, 8997, 27, 28, 29, kEnd));
}

/// The text of both sides: each sentinel of the encoder's gives way to what the targets say behind
/// it.
Ids joined(const Sides& s) {
  std::map<int32_t, Ids> said;
  int32_t open = 0;
  for (const int32_t id : s.targets) {
    if (is_sentinel(id)) {
      open = id;
    } else if (id != kEnd) {
      said[open].push_back(id);
    }
  }
  Ids text;
  for (const int32_t id : s.encoder) {
    if (id == kEnd) continue;
    if (is_sentinel(id)) {
      text.insert(text.end(), said[id].begin(), said[id].end());
    } else {
      text.push_back(id);
    }
  }
  return text;
}

TEST(Spans, BothSidesTogetherAreTheText) {
  for (const int64_t length : {3, 5, 16, 64, 128}) {
    const SpanCounts counts = span_counts({0.25, 2.5}, length);
    const Ids text = counting(counts.raw);
    for (uint64_t key = 0; key < 50; ++key) {
      const Sides s = corrupt(counts, key, text);
      EXPECT_EQ(joined(s), text) << length << ", " << key;
      EXPECT_EQ(s.decoder.front(), kStart);
      EXPECT_TRUE(std::equal(s.decoder.begin() + 1, s.decoder.end(), s.targets.begin()));
      EXPECT_EQ(s.encoder.back(), kEnd);
      EXPECT_EQ(s.targets.back(), kEnd);
    }
  }
}

TEST(Spans, SentinelsComeInOrderAndNeverTouch) {
  const SpanCounts counts = span_counts({0.5, 1.2}, 64);
  for (uint64_t key = 0; key < 200; ++key) {
    const Sides s = corrupt(counts, key, counting(counts.raw));
    for (const Ids& side : {s.encoder, s.targets}) {
      int64_t seen = 0;
      for (size_t i = 0; i < side.size(); ++i) {
        if (!is_sentinel(side[i])) continue;
        EXPECT_EQ(side[i], kFirstSentinel - seen++);
        EXPECT_FALSE(i > 0 && is_sentinel(side[i - 1]));
      }
      EXPECT_EQ(seen, counts.spans);
    }
    EXPECT_FALSE(is_sentinel(s.encoder.front()));
  }
}

// Of 4 hidden tokens in 2 spans the first has 1, 2 or 3, each as often as the others; likewise,
// apart from it, the stretch before it.
TEST(Spans, EveryWayToCutIsAsLikely) {
  const SpanCounts counts{8, 4, 2};
  std::map<std::pair<int64_t, int64_t>, int> ways;
  constexpr int kDraws = 9000;
  for (int draw = 0; draw < kDraws; ++draw) {
    const Sides s = corrupt(counts, random_key(3, static_cast<uint64_t>(draw)), counting(8));
    const auto before = [](const Ids& side, size_t from) {
      const auto begin = side.begin() + static_cast<int64_t>(from);
      return std::ranges::find_if(begin, side.end(), is_sentinel) - begin;
    };
    ++ways[{before(s.encoder, 0), before(s.targets, 1)}];
  }
  EXPECT_EQ(ways.size(), 9u);
  // Five standard deviations of a binomial count.
  const double expected = kDraws / 9.0, bound = 5 * std::sqrt(expected * 8 / 9);
  for (const auto& [way, count] : ways)
    EXPECT_NEAR(count, expected, bound) << way.first << ", " << way.second;
}

}  // namespace
}  // namespace megalith::objectives
