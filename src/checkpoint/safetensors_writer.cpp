// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors_writer.h"

#include "base/check.h"
#include "base/file.h"
#include "checkpoint/safetensors.h"

namespace megalith::checkpoint {

WrittenFile write_safetensors(const std::filesystem::path& path,
                              std::span<const TensorContent> tensors) {
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, const TensorContent*> by_name;
  for (const TensorContent& tensor : tensors) {
    entries.push_back({tensor.name, tensor.dtype, tensor.shape, 0, 0});
    MEGA_CHECK(by_name.emplace(tensor.name, &tensor).second, "tensor {} twice", tensor.name);
  }
  const std::string header = safetensors_header(entries);
  WrittenFile written;
  Sha256 file_hash;
  write_file_durable(
      path,
      [&](File& file) {
        file.write(header);
        file_hash.update(header.data(), header.size());
        written.bytes = static_cast<int64_t>(header.size());
        for (const SafetensorsEntry& entry : entries) {
          Sha256 tensor_hash;
          int64_t bytes = 0;
          by_name.at(entry.name)->write([&](std::span<const std::byte> part) {
            file.write(part.data(), part.size());
            file_hash.update(part.data(), part.size());
            tensor_hash.update(part.data(), part.size());
            bytes += static_cast<int64_t>(part.size());
          });
          MEGA_CHECK_EQ(bytes, entry.bytes);
          written.bytes += bytes;
          written.tensor_sha256[entry.name] = tensor_hash.finish();
        }
      },
      false);
  written.sha256 = file_hash.finish();
  return written;
}

}  // namespace megalith::checkpoint
