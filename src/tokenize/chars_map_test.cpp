// SPDX-License-Identifier: Apache-2.0
#include "tokenize/chars_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "characters/utf8.h"
#include "tokenize/chars_map_fixture.h"
#include "tokenize/normalizer.h"

namespace megalith::tokenize {
namespace {

std::string apply(const CharsMap& map, std::string_view text) {
  std::string out;
  map.append(text, out);
  return out;
}

// As in Hugging Face: the rule of a cluster's shortest known beginning stands for all of it.
TEST(CharsMap, RulesTakeWholeClusters) {
  const CharsMap map(compile({{"e\xCC\x81", "\xC3\xA9"},
                              {"\xEF\xAC\x81", "fi"},
                              {"\r", " "},
                              {"\x01", ""},
                              {"\xE2\x84\xA2", "TM"}}),
                     "x");
  EXPECT_EQ(apply(map, "the cafe\xCC\x81!"), "the caf\xC3\xA9!");
  EXPECT_EQ(apply(map, "\xEF\xAC\x81ne"), "fine");
  EXPECT_EQ(apply(map, "\xEF\xAC\x81\xCC\x81ne"), "fine");  // the accent is lost
  EXPECT_EQ(apply(map, "\xEF\xAC\x81\xCC\x81\xCC\x81"), "fi\xCC\x81\xCC\x81");  // seven bytes
  EXPECT_EQ(apply(map, "a\r\nb\rc\n"), "a b c\n");
  EXPECT_EQ(apply(map, "e\xCC\x81\xCC\x81"), "\xC3\xA9");
  // Joined to the picture before it, the sign is not the beginning of a cluster of its own.
  EXPECT_EQ(apply(map, "\xE2\x84\xA2\xCC\x81"), "TM");
  EXPECT_EQ(apply(map, "\xC2\xA9\xE2\x80\x8D\xE2\x84\xA2\xCC\x81"),
            "\xC2\xA9\xE2\x80\x8DTM\xCC\x81");
  std::string out;
  EXPECT_TRUE(map.append("a\x01", out));
  EXPECT_FALSE(
      map.append("\x01"
                 "a",
                 out = ""));
  EXPECT_EQ(out, "a");
}

TEST(CharsMap, BadRulesAreRefused) {
  const std::string good = compile({{"a", "b"}});
  EXPECT_EQ(apply(CharsMap(good, "x"), "aca"), "bcb");
  for (const std::string& bad :
       {std::string(), std::string("\4\0\0", 3), std::string("\4\0\0\0ab", 6), std::string(4, '\0'),
        std::string("\5\0\0\0abcdefgh", 12), good + '\xFF'})
    EXPECT_THAT([&] { CharsMap(bad, "f.json"); },
                testing::ThrowsMessage<UserError>(testing::StartsWith("f.json")));
}

// Whatever the rules, the result is UTF-8.
TEST(CharsMap, RandomRulesDoNoHarm) {
  std::mt19937 draw(2);
  for (int trial = 0; trial < 300; ++trial) {
    std::string units(4 * (256 + draw() % 512), '\0');
    for (size_t i = 0; i + 3 < units.size(); i += 4) {
      const uint32_t unit = static_cast<uint32_t>(draw()) >> (draw() % 24);
      const uint32_t labelled = draw() % 2 == 0 ? (unit & ~0xFFu) | (i / 4 & 0xFF) : unit;
      std::memcpy(units.data() + i, &labelled, 4);
    }
    const uint32_t bytes = static_cast<uint32_t>(units.size());
    std::string compiled(4, '\0');
    std::memcpy(compiled.data(), &bytes, 4);
    const CharsMap map(compiled + units +
                           "\xC3\xA9\xE4\xB8\xAD"
                           "abc",
                       "x");
    const std::string out = apply(map, "the quick e\xCC\x81 \xC3\xA9\r\n \xE4\xB8\xAD z");
    ASSERT_EQ(characters::find_invalid_utf8(out), std::string::npos);
  }
}

TEST(CharsMap, TheLongestRuleIsFound) {
  const CharsMap map(compile({{"a", "1"}, {"ab", "2"}, {"abcd", "3"}, {"\xC3\xA9", "e"}}), "test");
  const auto longest = [&](std::string_view text) {
    const auto rule = map.longest(text);
    return rule ? std::pair(rule->length, std::string(rule->result))
                : std::pair(size_t{0}, std::string());
  };
  EXPECT_EQ(longest("abcx"), (std::pair<size_t, std::string>(2, "2")));
  EXPECT_EQ(longest("abcdx"), (std::pair<size_t, std::string>(4, "3")));
  EXPECT_EQ(longest("\xC3\xA9"), (std::pair<size_t, std::string>(2, "e")));
  EXPECT_EQ(longest("b"), (std::pair<size_t, std::string>(0, "")));
  EXPECT_FALSE(map.leaves_ascii('a', 'x'));
  EXPECT_TRUE(map.leaves_ascii('b', 'a'));
  EXPECT_TRUE(CharsMap(compile({{"ab", "2"}}), "test").leaves_ascii('a', 'c'));
  EXPECT_FALSE(CharsMap(compile({{"ab", "2"}}), "test").leaves_ascii('a', 'b'));
}

}  // namespace
}  // namespace megalith::tokenize
