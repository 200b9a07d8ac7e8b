// SPDX-License-Identifier: Apache-2.0
// TensorBoard's event file, byte for byte: a sequence of records
//   u64 length | u32 masked_crc(length) | data | u32 masked_crc(data)        (little-endian)
// where data is an Event message (event.proto) and the check sum is CRC-32C, rotated and shifted so
// that the CRC of bytes which contain CRCs stays useful (the TFRecord format).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace megalith::report {

/// CRC-32C (Castagnoli): crc("123456789") = 0xE3069283.
uint32_t crc32c(std::string_view bytes);
/// ((crc >> 15) | (crc << 17)) + 0xA282EAD8.
uint32_t masked_crc32c(std::string_view bytes);

/// One value of an event; exactly one of `scalar` and `text` is set for what we write. Values of
/// other kinds have neither.
struct EventValue {
  std::string tag;
  std::optional<float> scalar;
  std::optional<std::string> text;
};

struct Event {
  double wall = 0;  // seconds since 1970
  int64_t step = 0;
  std::string file_version;  // of the first record only
  std::vector<EventValue> values;
  int64_t end = 0;  // position in the file after its record; set when reading
};

/// The whole record (frame and message) of an event.
std::string encode_record(const Event& event);

/// What a record begins with: length and its check sum.
inline constexpr size_t kRecordHeadBytes = 12;
/// The length of the whole record whose first kRecordHeadBytes these are; nothing when they are
/// damaged.
std::optional<int64_t> record_bytes(std::string_view head);

/// The record at the start of `bytes`, with `end` its length. Nothing if the record is torn or
/// damaged: too short, a check sum that does not match, or not an Event.
std::optional<Event> decode_record(std::string_view bytes);

}  // namespace megalith::report
