// SPDX-License-Identifier: Apache-2.0
// TensorBoard's event file, byte for byte: a sequence of little-endian records
//   u64 length | u32 masked_crc(length) | data | u32 masked_crc(data)
// where data is an Event message (event.proto) and the checksum is CRC-32C, rotated and shifted so
// that it stays useful over bytes that contain CRCs themselves (the TFRecord format).
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

/// One value of an event. We write `scalar` or `text`, exactly one of them; values of other kinds
/// are read as neither.
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

/// What a record begins with: its length and the length's checksum.
inline constexpr size_t kRecordHeadBytes = 12;
/// The length of the whole record that begins with these kRecordHeadBytes bytes; nothing if they
/// are damaged.
std::optional<int64_t> record_bytes(std::string_view head);

/// The record at the start of `bytes`, with `end` set to its length. Nothing if the record is torn
/// or damaged: too short, a checksum that does not match, or not an Event.
std::optional<Event> decode_record(std::string_view bytes);

}  // namespace megalith::report
