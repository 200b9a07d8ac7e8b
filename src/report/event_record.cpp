// SPDX-License-Identifier: Apache-2.0
// CRC-32C comes from Boost (a table, about 0.4 GB/s: a step writes some hundred bytes), the message
// from protobuf. Integers are written byte by byte in the record's order, whatever the host's.
#include "report/event_record.h"

#include <boost/crc.hpp>
#include <climits>

#include "base/check.h"
#include "report/event.pb.h"

namespace megalith::report {

namespace {

constexpr int kDtString = 7;
constexpr int kDataClassTensor = 2;
constexpr size_t kFootBytes = 4;

template <typename T>
void put(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
}

template <typename T>
T get(std::string_view bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<T>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

wire::Event to_wire(const Event& event) {
  wire::Event message;
  message.set_wall_time(event.wall);
  message.set_step(event.step);
  if (!event.file_version.empty()) message.set_file_version(event.file_version);
  MEGA_CHECK(event.file_version.empty() || event.values.empty(), "an event says one thing");
  for (const EventValue& value : event.values) {
    wire::Value& out = *message.mutable_summary()->add_value();
    out.set_tag(value.tag);
    if (value.scalar) out.set_simple_value(*value.scalar);
    if (value.text) {
      MEGA_CHECK(!value.scalar, "value {} is both a scalar and a text", value.tag);
      out.mutable_tensor()->set_dtype(kDtString);
      out.mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(1);
      out.mutable_tensor()->add_string_val(*value.text);
      out.mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
      out.mutable_metadata()->set_data_class(kDataClassTensor);
    }
  }
  return message;
}

Event from_wire(const wire::Event& message) {
  Event event;
  event.wall = message.wall_time();
  event.step = message.step();
  event.file_version = message.file_version();
  for (const wire::Value& value : message.summary().value()) {
    EventValue& out = event.values.emplace_back();
    out.tag = value.tag();
    if (value.has_simple_value()) out.scalar = value.simple_value();
    if (value.has_tensor() && value.tensor().dtype() == kDtString &&
        value.tensor().string_val_size() > 0) {
      out.text = value.tensor().string_val(0);
    }
  }
  return event;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

std::string encode_record(const Event& event) {
  const std::string data = to_wire(event).SerializeAsString();
  std::string record;
  record.reserve(kRecordHeadBytes + data.size() + kFootBytes);
  put<uint64_t>(record, data.size());
  put<uint32_t>(record, masked_crc32c(record));
  record += data;
  put<uint32_t>(record, masked_crc32c(data));
  return record;
}

std::optional<int64_t> record_bytes(std::string_view head) {
  const uint64_t length = get<uint64_t>(head);
  if (get<uint32_t>(head.substr(8)) != masked_crc32c(head.substr(0, 8))) return std::nullopt;
  if (length > INT_MAX) return std::nullopt;
  return static_cast<int64_t>(kRecordHeadBytes + length + kFootBytes);
}

std::optional<Event> decode_record(std::string_view bytes) {
  if (bytes.size() < kRecordHeadBytes + kFootBytes) return std::nullopt;
  const std::optional<int64_t> whole = record_bytes(bytes);
  if (!whole || *whole > static_cast<int64_t>(bytes.size())) return std::nullopt;
  const auto length = static_cast<size_t>(*whole) - kRecordHeadBytes - kFootBytes;
  const std::string_view data = bytes.substr(kRecordHeadBytes, length);
  if (get<uint32_t>(bytes.substr(kRecordHeadBytes + length)) != masked_crc32c(data))
    return std::nullopt;
  wire::Event message;
  if (!message.ParseFromArray(data.data(), static_cast<int>(length))) return std::nullopt;
  Event event = from_wire(message);
  event.end = *whole;
  return event;
}

}  // namespace megalith::report
