// SPDX-License-Identifier: Apache-2.0
// Golden bytes made by TensorBoard's own writer's rules; check sums from the RFC 3720 vectors.
#include "report/event_record.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace megalith::report {
namespace {

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

TEST(EventRecord, ChecksumsAreTheKnownAnswers) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(masked_crc32c("123456789"), 0xC78AB0E5u);
}

TEST(EventRecord, VersionRecordIsTheGoldenBytes) {
  EXPECT_EQ(hex(encode_record({1.0, 0, "brain.Event:2", {}, 0})),
            "1800000000000000a37f4b22"
            "09000000000000f03f1a0d627261696e2e4576656e743a32"
            "86bf577a");
}

TEST(EventRecord, ScalarRecordIsTheGoldenBytes) {
  EXPECT_EQ(hex(encode_record({2.0, 7, "", {{"lm loss", 2.5f, std::nullopt}}, 0})),
            "1d00000000000000602fdf23"
            "09000000000000004010072a100a0e0a076c6d206c6f73731500002040"
            "39917ad3");
}

TEST(EventRecord, DecodingGivesBackWhatWasEncoded) {
  const Event event{
      3.5,
      int64_t{1} << 40,
      "",
      {{"a", 0.0f, std::nullopt}, {"b", std::nullopt, "text\xFF\n"}, {"c", -1.5f, std::nullopt}},
      0};
  const std::string record = encode_record(event);
  const std::optional<Event> back = decode_record(record + "more");
  ASSERT_TRUE(back);
  EXPECT_EQ(back->end, static_cast<int64_t>(record.size()));
  EXPECT_EQ(back->wall, 3.5);
  EXPECT_EQ(back->step, int64_t{1} << 40);
  ASSERT_EQ(back->values.size(), 3u);
  EXPECT_EQ(back->values[0].scalar, 0.0f);
  EXPECT_FALSE(back->values[0].text);
  EXPECT_EQ(back->values[1].text, "text\xFF\n");
  EXPECT_FALSE(back->values[1].scalar);
  EXPECT_EQ(back->values[2].tag, "c");
  EXPECT_EQ(back->values[2].scalar, -1.5f);
}

TEST(EventRecord, EveryTornOrFlippedRecordIsRefused) {
  const std::string record = encode_record({2.0, 7, "", {{"lm loss", 2.5f, std::nullopt}}, 0});
  for (size_t size = 0; size < record.size(); ++size) {
    EXPECT_FALSE(decode_record(record.substr(0, size))) << size;
  }
  for (size_t i = 0; i < record.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = record;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      EXPECT_FALSE(decode_record(damaged)) << i << " bit " << bit;
    }
  }
}

TEST(EventRecord, AnAbsurdLengthWithAGoodChecksumIsRefused) {
  std::string head(8, '\xFF');
  const uint32_t crc = masked_crc32c(head);
  for (int i = 0; i < 4; ++i) head.push_back(static_cast<char>(crc >> (8 * i) & 0xFF));
  EXPECT_FALSE(decode_record(head + std::string(64, '\0')));
}

}  // namespace
}  // namespace megalith::report
