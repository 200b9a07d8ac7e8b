// SPDX-License-Identifier: Apache-2.0
// The arrays of the index are written in one pass over the spilled lengths each: lengths, offsets,
// document indices.
#include "data/indexed_writer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "data/fingerprint.h"

namespace megalith::data {
namespace {

constexpr size_t kBuffer = size_t{1} << 20;
constexpr int32_t kDocumentEnd = -1;

template <typename T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

/// Appends the bytes of values to a file through a buffer.
class Buffered {
 public:
  Buffered(File& file, FileHash& hash) : file_(file), hash_(hash) {}
  template <typename T>
  void put(T value) {
    append(buffer_, value);
    if (buffer_.size() >= kBuffer) flush();
  }
  void put_text(std::string_view text) { buffer_ += text; }
  void flush() {
    file_.write(buffer_);
    hash_.update(buffer_.data(), buffer_.size());
    buffer_.clear();
  }

 private:
  File& file_;
  FileHash& hash_;
  std::string buffer_;
};

template <typename Visit>
void for_each_spilled(const File& spill, Visit visit) {
  const int64_t bytes = spill.size();
  std::vector<int32_t> chunk;
  for (int64_t offset = 0; offset < bytes; offset += int64_t{kBuffer}) {
    chunk.resize(static_cast<size_t>(std::min(int64_t{kBuffer}, bytes - offset)) / 4);
    spill.read_at(chunk.data(), chunk.size() * 4, offset);
    for (const int32_t entry : chunk) visit(entry);
  }
}

}  // namespace

IndexedWriter::IndexedWriter(File& bin, const std::filesystem::path& prefix, TokenType type)
    : bin_(bin), type_(type), spill_(open_scratch(prefix)) {
  MEGA_CHECK(type == TokenType::u16 || type == TokenType::i32, "written are u16 and i32");
}

void IndexedWriter::spill(int32_t entry) {
  append(spilled_, entry);
  if (spilled_.size() < kBuffer) return;
  spill_.write(spilled_);
  spilled_.clear();
}

void IndexedWriter::add_sequence(std::span<const int32_t> ids) {
  MEGA_CHECK(ids.size() <= size_t{std::numeric_limits<int32_t>::max()}, "{} tokens", ids.size());
  uint32_t all = 0;  // a negative id sets the top bit
  for (const int32_t id : ids) all |= static_cast<uint32_t>(id);
  MEGA_CHECK(all <= (type_ == TokenType::u16 ? 0xffffu : 0x7fffffffu), "an id does not fit");
  const size_t begin = buffer_.size();
  buffer_.resize(begin + ids.size() * static_cast<size_t>(size_of(type_)));
  if (type_ == TokenType::i32) {
    if (!ids.empty()) std::memcpy(buffer_.data() + begin, ids.data(), ids.size() * 4);
  } else {
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto id = static_cast<uint16_t>(ids[i]);
      std::memcpy(buffer_.data() + begin + 2 * i, &id, 2);
    }
  }
  if (buffer_.size() >= kBuffer) {
    write_tokens();
    if (buffer_.capacity() > 4 * kBuffer) buffer_.shrink_to_fit();  // after a huge document
  }
  num_tokens_ += static_cast<int64_t>(ids.size());
  ++num_sequences_;
  spill(static_cast<int32_t>(ids.size()));
}

void IndexedWriter::end_document() {
  ++num_documents_;
  spill(kDocumentEnd);
}

void IndexedWriter::write_tokens() {
  bin_.write(buffer_);
  hash_.update(buffer_.data(), buffer_.size());
  buffer_.clear();
}

std::string IndexedWriter::finish(File& idx) {
  write_tokens();
  spill_.write(spilled_);
  spilled_.clear();
  IndexHeader header;
  header.type = type_;
  header.num_sequences = num_sequences_;
  header.num_documents = num_documents_;
  FileHash hash;
  Buffered out(idx, hash);
  out.put_text(format_header(header));
  for_each_spilled(spill_, [&](int32_t entry) {
    if (entry != kDocumentEnd) out.put(entry);
  });
  int64_t pointer = 0;
  for_each_spilled(spill_, [&](int32_t entry) {
    if (entry == kDocumentEnd) return;
    out.put(pointer);
    pointer += entry * size_of(type_);
  });
  int64_t sequences = 0;
  out.put(sequences);
  for_each_spilled(spill_, [&](int32_t entry) {
    if (entry == kDocumentEnd) {
      out.put(sequences);
    } else {
      ++sequences;
    }
  });
  out.flush();
  return fingerprint_of(hash.digest(), hash_.digest());
}

void write_indexed(const std::filesystem::path& prefix, TokenType type,
                   FunctionRef<void(IndexedWriter&)> fill) {
  const std::filesystem::path folder =
      prefix.has_parent_path() ? prefix.parent_path() : std::filesystem::path(".");
  if (!std::filesystem::is_directory(folder)) {
    throw UserError("{}: no such folder; make it first", folder.string());
  }
  if (prefix.filename().empty()) {
    throw UserError("{}: an output prefix ends with a name, as in corpora/train", prefix.string());
  }
  std::string fingerprint, stamp;
  write_file_durable(idx_path(prefix), [&](File& idx) {
    write_file_durable(bin_path(prefix), [&](File& bin) {
      IndexedWriter writer(bin, prefix, type);
      fill(writer);
      fingerprint = writer.finish(idx);
      // All bytes are on the disk before the first visible change. From here on a crash leaves
      // either no index or the right one.
      bin.sync();
      idx.sync();
      stamp = stamp_of(idx, bin);
      if (std::filesystem::remove(idx_path(prefix))) sync_folder(folder);
    });
  });
  keep_fingerprint(prefix, stamp, fingerprint);
}

}  // namespace megalith::data
