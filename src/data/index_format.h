// SPDX-License-Identifier: Apache-2.0
// The layout of a Megatron `.idx` file, version 1, little-endian and unaligned:
//
//   offset  field
//        0  magic[9]
//        9  u64     version = 1
//       17  u8      dtype code
//       18  u64     S: sequences
//       26  u64     D: document indices
//       34  i32[S]  lengths in tokens
//           i64[S]  byte offsets in .bin
//           i64[D]  number of sequences before each document
//          (i8[S]   modes, in multimodal sets only)
//
// D is the number of documents + 1: the first index is 0, the last is S. `.bin` holds the tokens of
// the sequences and nothing else, so any span of tokens is one span of bytes. Source:
// megatron-core, IndexedDataset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace megalith::data {

/// The codes of integer tokens. (6 and 7 are floats, which tokens never are.)
enum class TokenType : uint8_t { u8 = 1, i8 = 2, i16 = 3, i32 = 4, i64 = 5, u16 = 8 };

/// Bytes of one token.
int64_t size_of(TokenType type);
/// u16 if every id fits with Megatron's margin (vocab_size < 65500), else i32.
TokenType token_type_for(int64_t vocab_size);

/// The fixed head of an `.idx` file, and where its arrays lie.
struct IndexHeader {
  TokenType type = TokenType::u16;
  int64_t num_sequences = 0;
  int64_t num_documents = 0;  // D - 1

  static constexpr int64_t kBytes = 34;
  int64_t lengths_offset() const { return kBytes; }
  int64_t pointers_offset() const { return kBytes + 4 * num_sequences; }
  int64_t documents_offset() const { return kBytes + 12 * num_sequences; }
  int64_t end_offset() const { return documents_offset() + 8 * (num_documents + 1); }
};

/// The 34 bytes of a header.
std::string format_header(const IndexHeader& header);
/// Reads a header and checks it against the size of its file; IntegrityError names `path` and what
/// is wrong. Afterwards every offset of the header lies inside the file.
IndexHeader parse_header(std::span<const std::byte> head, int64_t file_bytes,
                         const std::filesystem::path& path);

/// `prefix` + ".bin" and ".idx" (appended, so a prefix may hold dots).
std::filesystem::path bin_path(const std::filesystem::path& prefix);
std::filesystem::path idx_path(const std::filesystem::path& prefix);

}  // namespace megalith::data
