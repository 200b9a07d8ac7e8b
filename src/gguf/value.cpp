// SPDX-License-Identifier: Apache-2.0
#include "gguf/value.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "base/check.h"

namespace megalith::gguf {
namespace {

static_assert(std::endian::native == std::endian::little);

template <typename T>
T load(const std::string& bytes, int64_t index) {
  T value{};
  std::memcpy(&value, bytes.data() + index * static_cast<int64_t>(sizeof value), sizeof value);
  return value;
}

template <typename T>
std::string raw(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

std::string with_length(std::string_view text) {
  const uint64_t length = text.size();
  return raw(std::span(&length, 1)).append(text);
}

std::string_view name_of(ValueType type) {
  switch (type) {
    case ValueType::u8:
      return "u8";
    case ValueType::i8:
      return "i8";
    case ValueType::u16:
      return "u16";
    case ValueType::i16:
      return "i16";
    case ValueType::u32:
      return "u32";
    case ValueType::i32:
      return "i32";
    case ValueType::f32:
      return "f32";
    case ValueType::boolean:
      return "bool";
    case ValueType::text:
      return "string";
    case ValueType::array:
      return "array";
    case ValueType::u64:
      return "u64";
    case ValueType::i64:
      return "i64";
    case ValueType::f64:
      return "f64";
  }
  return "unknown";
}

}  // namespace

int64_t bytes_of(ValueType type) {
  switch (type) {
    case ValueType::u8:
    case ValueType::i8:
    case ValueType::boolean:
      return 1;
    case ValueType::u16:
    case ValueType::i16:
      return 2;
    case ValueType::u32:
    case ValueType::i32:
    case ValueType::f32:
      return 4;
    case ValueType::u64:
    case ValueType::i64:
    case ValueType::f64:
      return 8;
    case ValueType::text:
    case ValueType::array:
      break;
  }
  return 0;
}

Value Value::stored(ValueType type, bool is_array, int64_t count, std::string bytes) {
  MEGA_CHECK(count >= 0 && (is_array || count == 1));
  MEGA_CHECK(type == ValueType::text ||
             static_cast<int64_t>(bytes.size()) == count * bytes_of(type));
  Value value;
  value.type_ = type;
  value.is_array_ = is_array;
  value.count_ = count;
  value.bytes_ = std::move(bytes);
  return value;
}

Value Value::u32(uint32_t number) {
  return stored(ValueType::u32, false, 1, raw(std::span<const uint32_t>(&number, 1)));
}
Value Value::f32(float number) {
  return stored(ValueType::f32, false, 1, raw(std::span<const float>(&number, 1)));
}
Value Value::boolean(bool value) {
  return stored(ValueType::boolean, false, 1, std::string(1, value ? '\1' : '\0'));
}
Value Value::text(std::string_view text) {
  return stored(ValueType::text, false, 1, with_length(text));
}
Value Value::i32s(std::span<const int32_t> numbers) {
  return stored(ValueType::i32, true, static_cast<int64_t>(numbers.size()), raw(numbers));
}
Value Value::f32s(std::span<const float> numbers) {
  return stored(ValueType::f32, true, static_cast<int64_t>(numbers.size()), raw(numbers));
}
Value Value::booleans(const std::vector<bool>& values) {
  std::string bytes;
  for (const bool value : values) bytes += value ? '\1' : '\0';
  return stored(ValueType::boolean, true, static_cast<int64_t>(values.size()), std::move(bytes));
}
Value Value::texts(std::span<const std::string> texts) {
  std::string bytes;
  for (const std::string& text : texts) bytes += with_length(text);
  return stored(ValueType::text, true, static_cast<int64_t>(texts.size()), std::move(bytes));
}

bool Value::holds_integers() const {
  return bytes_of(type_) > 0 && type_ != ValueType::boolean && type_ != ValueType::f32 &&
         type_ != ValueType::f64;
}

bool Value::holds_numbers() const {
  return holds_integers() || type_ == ValueType::f32 || type_ == ValueType::f64;
}

int64_t Value::integer_at(int64_t index) const {
  switch (type_) {
    case ValueType::u8:
      return load<uint8_t>(bytes_, index);
    case ValueType::i8:
      return load<int8_t>(bytes_, index);
    case ValueType::u16:
      return load<uint16_t>(bytes_, index);
    case ValueType::i16:
      return load<int16_t>(bytes_, index);
    case ValueType::u32:
      return load<uint32_t>(bytes_, index);
    case ValueType::i32:
      return load<int32_t>(bytes_, index);
    default:
      return load<int64_t>(bytes_, index);
  }
}

double Value::number_at(int64_t index) const {
  if (type_ == ValueType::f32) return static_cast<double>(load<float>(bytes_, index));
  if (type_ == ValueType::f64) return load<double>(bytes_, index);
  if (type_ == ValueType::u64) return static_cast<double>(load<uint64_t>(bytes_, index));
  return static_cast<double>(integer_at(index));
}

std::optional<int64_t> Value::integer() const {
  if (is_array_ || !holds_integers()) return std::nullopt;
  const int64_t number = integer_at(0);
  if (type_ == ValueType::u64 && number < 0) return std::nullopt;
  return number;
}

std::optional<double> Value::number() const {
  if (is_array_ || !holds_numbers()) return std::nullopt;
  return number_at(0);
}

std::optional<bool> Value::boolean() const {
  if (is_array_ || type_ != ValueType::boolean) return std::nullopt;
  return bytes_[0] != '\0';
}

std::optional<std::string> Value::text() const {
  if (is_array_ || type_ != ValueType::text) return std::nullopt;
  return bytes_.substr(sizeof(uint64_t));
}

std::optional<std::vector<int64_t>> Value::integers() const {
  if (!is_array_ || !holds_integers()) return std::nullopt;
  std::vector<int64_t> all;
  all.reserve(static_cast<size_t>(count_));
  for (int64_t i = 0; i < count_; ++i) {
    all.push_back(integer_at(i));
    if (type_ == ValueType::u64 && all.back() < 0) return std::nullopt;
  }
  return all;
}

std::optional<std::vector<double>> Value::numbers() const {
  if (!is_array_ || !holds_numbers()) return std::nullopt;
  std::vector<double> all;
  all.reserve(static_cast<size_t>(count_));
  for (int64_t i = 0; i < count_; ++i) all.push_back(number_at(i));
  return all;
}

std::optional<std::vector<bool>> Value::booleans() const {
  if (!is_array_ || type_ != ValueType::boolean) return std::nullopt;
  std::vector<bool> all;
  for (const char byte : bytes_) all.push_back(byte != '\0');
  return all;
}

std::optional<std::vector<std::string>> Value::texts() const {
  if (!is_array_ || type_ != ValueType::text) return std::nullopt;
  std::vector<std::string> all;
  all.reserve(static_cast<size_t>(count_));
  for (size_t at = 0; at < bytes_.size();) {
    uint64_t length = 0;
    std::memcpy(&length, bytes_.data() + at, sizeof length);
    all.push_back(bytes_.substr(at + sizeof length, length));
    at += sizeof length + length;
  }
  return all;
}

std::string Value::kind() const {
  return is_array_ ? fmt::format("an array of {} {}", count_, name_of(type_))
                   : fmt::format("one {}", name_of(type_));
}

}  // namespace megalith::gguf
