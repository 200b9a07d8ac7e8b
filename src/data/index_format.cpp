// SPDX-License-Identifier: Apache-2.0
// Reading a header trusts nothing: the two counts are compared with the size of the file by
// division before any product of them is formed, so no count can overflow.
#include "data/index_format.h"

#include <bit>
#include <cstring>
#include <string_view>

#include "base/error.h"

namespace megalith::data {
namespace {

static_assert(std::endian::native == std::endian::little, "the file layout is little-endian");

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr uint64_t kVersion = 1;

template <typename T>
T load(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

template <typename T>
void store(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

}  // namespace

int64_t size_of(TokenType type) {
  switch (type) {
    case TokenType::u8:
    case TokenType::i8:
      return 1;
    case TokenType::u16:
    case TokenType::i16:
      return 2;
    case TokenType::i32:
      return 4;
    case TokenType::i64:
      return 8;
  }
  return 0;
}

TokenType token_type_for(int64_t vocab_size) {
  return vocab_size < 65500 ? TokenType::u16 : TokenType::i32;
}

std::string format_header(const IndexHeader& header) {
  std::string out(kMagic);
  store(out, kVersion);
  store(out, static_cast<uint8_t>(header.type));
  store(out, static_cast<uint64_t>(header.num_sequences));
  store(out, static_cast<uint64_t>(header.num_documents + 1));
  return out;
}

IndexHeader parse_header(std::span<const std::byte> head, int64_t file_bytes,
                         const std::filesystem::path& path) {
  const auto refuse = [&path](const std::string& what) {
    return IntegrityError("{}: {}; pack the corpus again or restore the file", path.string(), what);
  };
  if (file_bytes < IndexHeader::kBytes || head.size() < size_t{IndexHeader::kBytes}) {
    throw refuse(fmt::format("{} bytes are too few for an index header of {}", file_bytes,
                             IndexHeader::kBytes));
  }
  if (std::memcmp(head.data(), kMagic.data(), kMagic.size()) != 0) {
    throw refuse("does not begin with MMIDIDX, so it is not a Megatron index");
  }
  const auto version = load<uint64_t>(head, 9);
  if (version != kVersion) throw refuse(fmt::format("index version {}, known is 1", version));
  const auto code = load<uint8_t>(head, 17);
  if (code == 0 || code == 6 || code == 7 || code > 8) {
    throw refuse(fmt::format("dtype code {} is not one of integers (1 to 5, 8)", code));
  }
  const auto num_sequences = load<uint64_t>(head, 18);
  const auto num_indices = load<uint64_t>(head, 26);
  if (num_indices == 0) throw refuse("it lists no document indices; even an empty one lists a 0");
  const auto room = static_cast<uint64_t>(file_bytes - IndexHeader::kBytes);
  if (num_sequences > room / 12 || num_indices > (room - 12 * num_sequences) / 8) {
    throw refuse(fmt::format("{} bytes are too few for {} sequences and {} document indices",
                             file_bytes, num_sequences, num_indices));
  }
  IndexHeader header;
  header.type = static_cast<TokenType>(code);
  header.num_sequences = static_cast<int64_t>(num_sequences);
  header.num_documents = static_cast<int64_t>(num_indices) - 1;
  const int64_t rest = file_bytes - header.end_offset();
  if (rest != 0 && rest != header.num_sequences) {  // the second: modes of a multimodal set
    throw refuse(fmt::format("{} bytes remain after the arrays of {} sequences and {} documents",
                             rest, num_sequences, header.num_documents));
  }
  return header;
}

std::filesystem::path bin_path(const std::filesystem::path& prefix) {
  return std::filesystem::path(prefix) += ".bin";
}

std::filesystem::path idx_path(const std::filesystem::path& prefix) {
  return std::filesystem::path(prefix) += ".idx";
}

}  // namespace megalith::data
