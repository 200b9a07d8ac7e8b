// SPDX-License-Identifier: Apache-2.0
// A value of a GGUF file's metadata: a number, a truth value, a text, or an array of one of these.
// It is kept as the file's bytes, so that an array of a hostile file takes no more memory than its
// bytes, and what is written again is the same.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace megalith::gguf {

/// The numbers are the format's.
enum class ValueType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  text = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

/// Bytes of one value; 0: they vary (text, array), or there is no such type.
int64_t bytes_of(ValueType type);

class Value {
 public:
  static Value u32(uint32_t number);
  static Value f32(float number);
  static Value boolean(bool value);
  static Value text(std::string_view text);
  static Value i32s(std::span<const int32_t> numbers);
  static Value f32s(std::span<const float> numbers);
  static Value booleans(const std::vector<bool>& values);
  static Value texts(std::span<const std::string> texts);
  /// `count` elements as a file holds them; the caller has checked that `bytes` are these.
  static Value stored(ValueType type, bool is_array, int64_t count, std::string bytes);

  /// Of an array: of its elements.
  ValueType type() const { return type_; }
  bool is_array() const { return is_array_; }
  /// Of an array; 1 of others.
  int64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

  /// Nothing when the value is something else: an integer of another width is one, but an integer
  /// is no truth value and an array of one number no number. integer() also: nothing above 2^63-1;
  /// number() takes integers too.
  std::optional<int64_t> integer() const;
  std::optional<double> number() const;
  std::optional<bool> boolean() const;
  std::optional<std::string> text() const;
  std::optional<std::vector<int64_t>> integers() const;
  std::optional<std::vector<double>> numbers() const;
  std::optional<std::vector<bool>> booleans() const;
  std::optional<std::vector<std::string>> texts() const;
  /// "an array of 3 u32", "a text": for messages.
  std::string kind() const;

  friend bool operator==(const Value&, const Value&) = default;

 private:
  bool holds_integers() const;
  bool holds_numbers() const;
  int64_t integer_at(int64_t index) const;
  double number_at(int64_t index) const;
  ValueType type_ = ValueType::u8;
  bool is_array_ = false;
  int64_t count_ = 1;
  std::string bytes_ = std::string(1, '\0');
};

/// By key.
using Metadata = std::map<std::string, Value, std::less<>>;

}  // namespace megalith::gguf
