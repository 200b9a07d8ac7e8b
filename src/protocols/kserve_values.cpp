// SPDX-License-Identifier: Apache-2.0
#include "protocols/kserve_values.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/one_line.h"
#include "protocols/api_error.h"

namespace megalith::protocols {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::array kDataTypes{
    DataType{"BOOL", 1, 'u'},   DataType{"UINT8", 1, 'u'},  DataType{"UINT16", 2, 'u'},
    DataType{"UINT32", 4, 'u'}, DataType{"UINT64", 8, 'u'}, DataType{"INT8", 1, 'i'},
    DataType{"INT16", 2, 'i'},  DataType{"INT32", 4, 'i'},  DataType{"INT64", 8, 'i'},
    DataType{"FP32", 4, 'f'},   DataType{"FP64", 8, 'f'},   DataType{"BYTES", 0, 's'}};

template <typename Raw, typename Wide>
std::vector<Wide> widened(std::string_view bytes) {
  std::vector<Wide> values;
  for (size_t i = 0; i + sizeof(Raw) <= bytes.size(); i += sizeof(Raw)) {
    Raw raw;
    std::memcpy(&raw, bytes.data() + i, sizeof raw);
    values.push_back(static_cast<Wide>(raw));
  }
  return values;
}

std::vector<std::string> texts_in(std::string_view bytes, const std::string& name) {
  std::vector<std::string> texts;
  while (!bytes.empty()) {
    uint32_t length = 0;
    if (bytes.size() < sizeof length) throw ApiError(name, "{}: its bytes end too soon", name);
    std::memcpy(&length, bytes.data(), sizeof length);
    bytes.remove_prefix(sizeof length);
    if (bytes.size() < length) throw ApiError(name, "{}: its bytes end too soon", name);
    texts.emplace_back(bytes.substr(0, length));
    bytes.remove_prefix(length);
  }
  return texts;
}

}  // namespace

int64_t KserveTensor::elements() const {
  return std::visit([](const auto& values) { return std::ssize(values); }, data);
}

const DataType& data_type(const std::string& name, const std::string& where) {
  for (const DataType& known : kDataTypes)
    if (known.name == name) return known;
  throw ApiError(where, "{}: the datatype {} is not taken here", where, one_line(name, 20));
}

int64_t DataType::low() const {
  if (kind != 'i') return 0;
  return bytes == 8 ? INT64_MIN : -(int64_t{1} << (8 * bytes - 1));
}

int64_t DataType::high() const {
  if (name == "BOOL") return 1;
  return bytes == 8 ? INT64_MAX : (int64_t{1} << (8 * bytes - (kind == 'i' ? 1 : 0))) - 1;
}

int64_t checked_elements(const KserveTensor& tensor) {
  if (tensor.shape.size() > kMostDims)
    throw ApiError(tensor.name, "{}: shape must be a list of at most {} numbers", tensor.name,
                   kMostDims);
  int64_t product = 1;
  for (const int64_t size : tensor.shape) {
    if (size < 0 || size > kMostElements || product * size > kMostElements) {
      throw ApiError(tensor.name, "{}: its shape holds no whole numbers, or more than {} elements",
                     tensor.name, kMostElements);
    }
    product *= size;
  }
  return product;
}

void require_elements(const KserveTensor& tensor, int64_t elements) {
  if (tensor.elements() == elements) return;
  throw ApiError(tensor.name, "{}: {} values, but its shape holds {}", tensor.name,
                 tensor.elements(), elements);
}

void read_bytes(KserveTensor& tensor, const DataType& type, std::string_view bytes) {
  if (type.bytes != 0 && bytes.size() % type.bytes != 0)
    throw ApiError(tensor.name, "{}: {} bytes are no {}", tensor.name, bytes.size(), type.name);
  const std::string_view name = type.name;
  if (name == "BOOL" || name == "UINT8") tensor.data = widened<uint8_t, uint64_t>(bytes);
  if (name == "UINT16") tensor.data = widened<uint16_t, uint64_t>(bytes);
  if (name == "UINT32") tensor.data = widened<uint32_t, uint64_t>(bytes);
  if (name == "UINT64") tensor.data = widened<uint64_t, uint64_t>(bytes);
  if (name == "INT8") tensor.data = widened<int8_t, int64_t>(bytes);
  if (name == "INT16") tensor.data = widened<int16_t, int64_t>(bytes);
  if (name == "INT32") tensor.data = widened<int32_t, int64_t>(bytes);
  if (name == "INT64") tensor.data = widened<int64_t, int64_t>(bytes);
  if (name == "FP32") tensor.data = widened<float, double>(bytes);
  if (name == "FP64") tensor.data = widened<double, double>(bytes);
  if (name == "BYTES") tensor.data = texts_in(bytes, tensor.name);
}

std::string bytes_of(const KserveTensor& tensor) {
  std::string bytes;
  const auto put = [&](const auto& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  if (tensor.datatype == "UINT32")
    for (const uint64_t x : std::get<std::vector<uint64_t>>(tensor.data))
      put(static_cast<uint32_t>(x));
  if (tensor.datatype == "INT32")
    for (const int64_t x : std::get<std::vector<int64_t>>(tensor.data))
      put(static_cast<int32_t>(x));
  if (tensor.datatype == "FP32")
    for (const double x : std::get<std::vector<double>>(tensor.data)) put(static_cast<float>(x));
  if (tensor.datatype == "BYTES") {
    for (const std::string& text : std::get<std::vector<std::string>>(tensor.data)) {
      put(static_cast<uint32_t>(text.size()));
      bytes += text;
    }
  }
  return bytes;
}

}  // namespace megalith::protocols
