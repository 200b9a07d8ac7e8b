// SPDX-License-Identifier: Apache-2.0
// A tensor of KServe's protocol, version 2: its values, and the same as bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace megalith::protocols {

inline constexpr size_t kMostDims = 8;
inline constexpr int64_t kMostElements = 1 << 20;

struct KserveTensor {
  std::string name;
  std::string datatype;  // "UINT32"
  std::vector<int64_t> shape;
  std::variant<std::vector<int64_t>, std::vector<uint64_t>, std::vector<double>,
               std::vector<std::string>>
      data;  // row-major; BOOL as 0 and 1

  int64_t elements() const;
};

struct DataType {
  std::string_view name;
  size_t bytes;  // of an element; 0: each says
  char kind;     // 'i' signed, 'u' unsigned, 'f' floating, 's' bytes

  /// What a whole number of it may be; of 64 bits without a sign INT64_MAX.
  int64_t low() const, high() const;
};
/// ApiError unless values of the type are taken; `where` is their tensor.
const DataType& data_type(const std::string& name, const std::string& where);

/// The product of the tensor's dimensions. ApiError when they are too many, negative, or hold too
/// many elements.
int64_t checked_elements(const KserveTensor& tensor);
/// ApiError unless the tensor has as many values.
void require_elements(const KserveTensor& tensor, int64_t elements);

/// Overwrites the values. Little-endian; BYTES as a length of 32 bits before each. ApiError when
/// the bytes are none of such values.
void read_bytes(KserveTensor& tensor, const DataType& type, std::string_view bytes);
/// Of UINT32, INT32, FP32 and BYTES, which answers consist of.
std::string bytes_of(const KserveTensor& tensor);

}  // namespace megalith::protocols
