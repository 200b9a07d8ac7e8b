// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors_writer.h"

#include <algorithm>

#include "base/check.h"
#include "base/file.h"
#include "base/file_hash.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/uncached_writer.h"

namespace megalith::checkpoint {
namespace {

using Bytes = std::span<const std::byte>;

/// Every hash and the copy for the disk read a block this large one after the other: it comes from
/// memory once.
constexpr size_t kBlockBytes = size_t{128} << 10;

/// The bytes of one file on their way.
class Writing {
 public:
  Writing(File& file, const AtWork& at_work) : out_(file), at_work_(at_work) {}

  void add(Bytes bytes) {
    hash_.update(bytes.data(), bytes.size());
    out_.write(bytes);
    written_.bytes += std::ssize(bytes);
  }

  void add(const TensorContent& tensor, int64_t expected_bytes) {
    const int64_t begin = written_.bytes;
    const bool whole = tensor.is_whole();
    FileHash hash;
    Sha256 sha;
    tensor.write([&](Bytes part) {
      while (!part.empty()) {
        const Bytes block = part.first(std::min(part.size(), kBlockBytes));
        if (whole) sha.update(block.data(), block.size());
        hash.update(block.data(), block.size());
        add(block);
        if (at_work_) at_work_();
        part = part.subspan(block.size());
      }
    });
    MEGA_CHECK_EQ(written_.bytes - begin, expected_bytes);
    written_.tensors[tensor.name] = {hash.digest(), whole ? sha.finish() : ""};
  }

  WrittenFile finish() {
    out_.finish();
    written_.hash = hash_.digest();
    return std::move(written_);
  }

 private:
  UncachedWriter out_;
  const AtWork& at_work_;
  FileHash hash_;
  WrittenFile written_;
};

}  // namespace

WrittenFile write_safetensors(const std::filesystem::path& path,
                              std::span<const TensorContent> tensors, const AtWork& at_work) {
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, const TensorContent*> by_name;
  for (const TensorContent& tensor : tensors) {
    entries.push_back({tensor.name, tensor.dtype, tensor.shape, 0, 0});
    MEGA_CHECK(by_name.emplace(tensor.name, &tensor).second, "tensor {} twice", tensor.name);
  }
  const std::string header = safetensors_header(entries);
  WrittenFile written;
  write_file_durable(
      path,
      [&](File& file) {
        Writing writing(file, at_work);
        writing.add(std::as_bytes(std::span(header)));
        for (const SafetensorsEntry& entry : entries)
          writing.add(*by_name.at(entry.name), entry.bytes);
        written = writing.finish();
      },
      false);
  return written;
}

}  // namespace megalith::checkpoint
