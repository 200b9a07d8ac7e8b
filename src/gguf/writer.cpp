// SPDX-License-Identifier: Apache-2.0
#include "gguf/writer.h"

#include <set>

#include "base/check.h"
#include "base/file.h"
#include "base/integer.h"
#include "gguf/reader.h"

namespace megalith::gguf {
namespace {

template <typename T>
void append(std::string& header, T value) {
  header.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_text(std::string& header, const std::string& text) {
  append(header, static_cast<uint64_t>(text.size()));
  header += text;
}

void append_value(std::string& header, const Value& value) {
  if (value.is_array()) append(header, ValueType::array);
  append(header, value.type());
  if (value.is_array()) append(header, static_cast<uint64_t>(value.count()));
  header += value.bytes();
}

std::string header_of(const OrderedMetadata& metadata, std::span<const TensorContent> tensors) {
  std::string header = "GGUF";
  append(header, uint32_t{3});
  append(header, static_cast<uint64_t>(tensors.size()));
  append(header, static_cast<uint64_t>(metadata.size()));
  std::set<std::string_view> seen;
  for (const auto& [key, value] : metadata) {
    MEGA_CHECK(!key.empty() && seen.insert(key).second, "key '{}'", key);
    MEGA_CHECK(key != "general.alignment", "the writer knows the default alignment alone");
    append_text(header, key);
    append_value(header, value);
  }
  seen.clear();
  int64_t at = 0;
  for (const TensorContent& tensor : tensors) {
    MEGA_CHECK(!tensor.name.empty() && tensor.name.size() <= kMaxNameBytes &&
                   seen.insert(tensor.name).second,
               "tensor '{}'", tensor.name);
    MEGA_CHECK_LE(tensor.shape.num_dims(), kMaxTensorDims);
    append_text(header, tensor.name);
    append(header, static_cast<uint32_t>(tensor.shape.num_dims()));
    for (int dim = tensor.shape.num_dims(); dim-- > 0;)
      append(header, static_cast<uint64_t>(tensor.shape[dim]));
    append(header, tensor.type);
    append(header, static_cast<uint64_t>(at));
    at += round_up(tensor.bytes(), kDefaultAlignment);
  }
  header.resize(round_up<size_t>(header.size(), kDefaultAlignment), '\0');
  return header;
}

}  // namespace

int64_t TensorContent::bytes() const {
  const BlockLayout& layout = block_layout(type);
  const int64_t row = shape.num_dims() > 0 ? shape[shape.num_dims() - 1] : 1;
  MEGA_CHECK(row > 0 && row % layout.elements == 0, "tensor {}: rows of {} in {}", name, row,
             layout.name);
  return shape.num_elements() / layout.elements * layout.bytes;
}

void write_file(const std::filesystem::path& path, const OrderedMetadata& metadata,
                std::span<const TensorContent> tensors) {
  write_file_durable(path, [&](File& file) {
    file.write(header_of(metadata, tensors));
    for (const TensorContent& tensor : tensors) {
      int64_t written = 0;
      tensor.write([&](std::span<const std::byte> part) {
        file.write(part.data(), part.size());
        written += static_cast<int64_t>(part.size());
      });
      MEGA_CHECK(written == tensor.bytes(), "tensor {}: {} bytes of {}", tensor.name, written,
                 tensor.bytes());
      file.write(
          std::string(static_cast<size_t>(round_up(written, kDefaultAlignment) - written), '\0'));
    }
  });
}

}  // namespace megalith::gguf
