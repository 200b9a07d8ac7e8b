// SPDX-License-Identifier: Apache-2.0
// The reader. Every number it takes from the index is judged before it is used as an offset: the
// checks at opening are few, and a damaged entry in the middle is caught where it is read.
#include "data/indexed.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/error.h"

namespace megalith::data {
namespace {

constexpr int64_t kChunk = int64_t{1} << 20;

File open_part(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    throw UserError("{}: no such file; a corpus is PREFIX.bin with PREFIX.idx, made by `pack`",
                    path.string());
  }
  return File(path, File::Mode::read);
}

IndexHeader read_header(const File& idx) {
  std::vector<std::byte> head(size_t{IndexHeader::kBytes});
  const int64_t bytes = idx.size();
  if (bytes >= IndexHeader::kBytes) idx.read_at(head.data(), head.size(), 0);
  return parse_header(head, bytes, idx.path());
}

template <typename T>
bool widen(const std::byte* bytes, std::span<int32_t> out, int64_t vocab_size, size_t& bad) {
  for (size_t i = 0; i < out.size(); ++i) {
    T id;
    std::memcpy(&id, bytes + i * sizeof(T), sizeof(T));
    if (static_cast<int64_t>(id) < 0 || static_cast<int64_t>(id) >= vocab_size) {
      bad = i;
      return false;
    }
    out[i] = static_cast<int32_t>(id);
  }
  return true;
}

bool widen(TokenType type, const std::byte* bytes, std::span<int32_t> out, int64_t vocab_size,
           size_t& bad) {
  switch (type) {
    case TokenType::u8:
      return widen<uint8_t>(bytes, out, vocab_size, bad);
    case TokenType::i8:
      return widen<int8_t>(bytes, out, vocab_size, bad);
    case TokenType::i16:
      return widen<int16_t>(bytes, out, vocab_size, bad);
    case TokenType::i32:
      return widen<int32_t>(bytes, out, vocab_size, bad);
    case TokenType::i64:
      return widen<int64_t>(bytes, out, vocab_size, bad);
    case TokenType::u16:
      return widen<uint16_t>(bytes, out, vocab_size, bad);
  }
  MEGA_CHECK(false, "token type {}", static_cast<int>(type));
  return false;
}

/// Calls visit(index, value) for every entry of an array of the index, chunk by chunk.
template <typename T, typename Visit>
void for_each_entry(const File& idx, int64_t array_offset, int64_t count, Visit visit) {
  std::vector<T> chunk;
  for (int64_t first = 0; first < count; first += kChunk) {
    chunk.resize(static_cast<size_t>(std::min(kChunk, count - first)));
    idx.read_at(chunk.data(), chunk.size() * sizeof(T),
                array_offset + first * static_cast<int64_t>(sizeof(T)));
    for (size_t i = 0; i < chunk.size(); ++i) visit(first + static_cast<int64_t>(i), chunk[i]);
  }
}

}  // namespace

IndexedDataset::IndexedDataset(const std::filesystem::path& prefix)
    : prefix_(prefix),
      idx_(open_part(idx_path(prefix))),
      bin_(open_part(bin_path(prefix))),
      header_(read_header(idx_)) {
  const int64_t num_sequences = header_.num_sequences;
  const auto first_document = index_entry<int64_t>(header_.documents_offset(), 0);
  const auto last_document =
      index_entry<int64_t>(header_.documents_offset(), header_.num_documents);
  if (first_document != 0 || last_document != num_sequences) {
    throw IntegrityError("{}: document indices run from {} to {} instead of from 0 to {}",
                         idx_.path().string(), first_document, last_document, num_sequences);
  }
  int64_t end = 0;  // in tokens, of the last sequence
  if (num_sequences > 0) {
    if (const int64_t begin = sequence_begin(0); begin != 0) {
      throw IntegrityError("{}: sequence 0 begins at token {} instead of 0", idx_.path().string(),
                           begin);
    }
    const auto length = index_entry<int32_t>(header_.lengths_offset(), num_sequences - 1);
    end = length < 0 ? -1 : sequence_begin(num_sequences - 1) + length;
  }
  if (end < 0 || end * size_of(header_.type) != bin_.size()) {
    throw IntegrityError(
        "{}: {} bytes, but its index ends at {}; the two files are not of one corpus, or one was "
        "cut short",
        bin_.path().string(), bin_.size(), end * size_of(header_.type));
  }
  num_tokens_ = end;
}

template <typename T>
T IndexedDataset::index_entry(int64_t array_offset, int64_t index) const {
  T value;
  idx_.read_at(&value, sizeof(T), array_offset + index * static_cast<int64_t>(sizeof(T)));
  return value;
}

int64_t IndexedDataset::sequence_begin(int64_t sequence) const {
  if (sequence == header_.num_sequences) return num_tokens_;
  const auto pointer = index_entry<int64_t>(header_.pointers_offset(), sequence);
  if (pointer < 0 || pointer % size_of(header_.type) != 0 || pointer > bin_.size()) {
    throw IntegrityError("{}: sequence {} begins at byte {}, which is no token of {} bytes",
                         idx_.path().string(), sequence, pointer, bin_.size());
  }
  if (sequence > 0) require_no_gap(sequence, pointer);
  return pointer / size_of(header_.type);
}

void IndexedDataset::require_no_gap(int64_t sequence, int64_t pointer) const {
  const auto length = index_entry<int32_t>(header_.lengths_offset(), sequence - 1);
  const auto before = index_entry<int64_t>(header_.pointers_offset(), sequence - 1);
  if (length < 0) {
    throw IntegrityError("{}: sequence {} has {} tokens", idx_.path().string(), sequence - 1,
                         length);
  }
  // Without a sum: the one before may lie anywhere.
  if (before < 0 || before > pointer || pointer - before != length * size_of(header_.type)) {
    throw IntegrityError(
        "{}: sequence {} begins at byte {}, but the one before has {} tokens at {}",
        idx_.path().string(), sequence, pointer, length, before);
  }
}

void IndexedDataset::read(int64_t first, std::span<int32_t> out, int64_t vocab_size) const {
  MEGA_CHECK(
      first >= 0 && first <= num_tokens_ && static_cast<int64_t>(out.size()) <= num_tokens_ - first,
      "tokens [{}, {} + {}) of {}", first, first, out.size(), num_tokens_);
  const int64_t size = size_of(header_.type);
  std::vector<std::byte> bytes(out.size() * static_cast<size_t>(size));
  bin_.read_at(bytes.data(), bytes.size(), first * size);
  size_t bad = 0;
  if (widen(header_.type, bytes.data(), out, vocab_size, bad)) return;
  throw IntegrityError(
      "{}: the token at position {} is not in the vocabulary of {} ids; was it "
      "packed with another tokenizer?",
      bin_.path().string(), first + static_cast<int64_t>(bad), vocab_size);
}

int64_t IndexedDataset::document_begin(int64_t document) const {
  MEGA_CHECK(document >= 0 && document <= num_documents(), "document {} of {}", document,
             num_documents());
  const auto at = [this](int64_t i) { return index_entry<int64_t>(header_.documents_offset(), i); };
  const int64_t sequence = at(document);
  const int64_t before = document > 0 ? at(document - 1) : 0;
  const int64_t after = document < num_documents() ? at(document + 1) : header_.num_sequences;
  if (sequence < 0 || sequence < before || sequence > after || sequence > header_.num_sequences) {
    throw IntegrityError("{}: document {} begins at sequence {} of {}, after {} and before {}",
                         idx_.path().string(), document, sequence, header_.num_sequences, before,
                         after);
  }
  return sequence_begin(sequence);
}

std::vector<int32_t> IndexedDataset::sequence_lengths(Range sequences) const {
  MEGA_CHECK(sequences.begin >= 0 && sequences.end <= num_sequences(), "sequences up to {} of {}",
             sequences.end, num_sequences());
  std::vector<int32_t> lengths(static_cast<size_t>(sequences.size()));
  idx_.read_at(lengths.data(), lengths.size() * 4, header_.lengths_offset() + 4 * sequences.begin);
  const auto bad = std::ranges::find_if(lengths, [](int32_t length) { return length < 0; });
  if (bad == lengths.end()) return lengths;
  throw IntegrityError("{}: sequence {} has {} tokens", idx_.path().string(),
                       sequences.begin + (bad - lengths.begin()), *bad);
}

std::vector<int64_t> IndexedDataset::document_sequences(Range documents) const {
  MEGA_CHECK(documents.begin >= 0 && documents.end <= num_documents(), "documents up to {} of {}",
             documents.end, num_documents());
  std::vector<int64_t> begins(static_cast<size_t>(documents.size() + 1));
  idx_.read_at(begins.data(), begins.size() * 8, header_.documents_offset() + 8 * documents.begin);
  int64_t before = 0;
  for (size_t i = 0; i < begins.size(); ++i) {
    if (begins[i] < before || begins[i] > num_sequences()) {
      throw IntegrityError("{}: document index {} is {} after {}", idx_.path().string(),
                           documents.begin + static_cast<int64_t>(i), begins[i], before);
    }
    before = begins[i];
  }
  return begins;
}

int64_t IndexedDataset::document_of(int64_t token) const {
  MEGA_CHECK(token >= 0 && token < num_tokens_, "token {} of {}", token, num_tokens_);
  int64_t low = 0;  // document_begin(low) <= token < document_begin(high)
  int64_t high = num_documents();
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (document_begin(middle) <= token ? low : high) = middle;
  }
  return low;
}

void IndexedDataset::verify_index() const {
  const std::string path = idx_.path().string();
  const int64_t size = size_of(header_.type);
  std::vector<int32_t> lengths;  // of the chunk of sequences whose offsets are being checked
  int64_t expected = 0;
  for_each_entry<int64_t>(
      idx_, header_.pointers_offset(), header_.num_sequences, [&](int64_t i, int64_t pointer) {
        if (i % kChunk == 0) {
          lengths.resize(static_cast<size_t>(std::min(kChunk, header_.num_sequences - i)));
          idx_.read_at(lengths.data(), lengths.size() * 4, header_.lengths_offset() + 4 * i);
        }
        const int32_t length = lengths[static_cast<size_t>(i % kChunk)];
        if (length < 0) throw IntegrityError("{}: sequence {} has {} tokens", path, i, length);
        if (pointer != expected) {
          throw IntegrityError("{}: sequence {} begins at byte {}, but those before it end at {}",
                               path, i, pointer, expected);
        }
        expected += length * size;
      });
  int64_t before = 0;
  for_each_entry<int64_t>(
      idx_, header_.documents_offset(), header_.num_documents + 1, [&](int64_t i, int64_t index) {
        if (index < before || (i == 0 && index != 0)) {
          throw IntegrityError("{}: document index {} is {} after {}", path, i, index, before);
        }
        before = index;
      });
  if (before != header_.num_sequences) {
    throw IntegrityError("{}: the documents hold {} sequences of {}", path, before,
                         header_.num_sequences);
  }
}

void IndexedDataset::verify(int64_t vocab_size) const {
  verify_index();
  std::vector<int32_t> chunk;
  for (int64_t first = 0; first < num_tokens_; first += kChunk) {
    chunk.resize(static_cast<size_t>(std::min(kChunk, num_tokens_ - first)));
    read(first, chunk, vocab_size);
  }
}

std::string IndexedDataset::fingerprint(const AtWork& at_work) const {
  const std::string stamp = stamp_of(idx_, bin_);
  if (auto kept = kept_fingerprint(prefix_, stamp)) return *kept;
  std::string print = fingerprint_of(digest_of(idx_, at_work), digest_of(bin_, at_work));
  // Bytes that changed meanwhile are of neither stamp.
  if (stamp_of(idx_, bin_) == stamp) keep_fingerprint(prefix_, stamp, print);
  return print;
}

std::string IndexedDataset::fingerprint_of_ends() const {
  XXH3_state_t* state = XXH3_createState();
  MEGA_CHECK(state != nullptr, "out of memory");
  XXH3_128bits_reset(state);
  std::vector<std::byte> bytes;
  const auto add = [&](const File& file, int64_t offset, int64_t count) {
    bytes.resize(static_cast<size_t>(count));
    file.read_at(bytes.data(), bytes.size(), offset);
    XXH3_128bits_update(state, bytes.data(), bytes.size());
  };
  try {
    add(idx_, 0, IndexHeader::kBytes);
    const int64_t sizes[2] = {idx_.size(), bin_.size()};
    XXH3_128bits_update(state, sizes, sizeof(sizes));
    for (const File* file : {&idx_, &bin_}) {
      const int64_t part = std::min(kChunk, file->size());
      add(*file, 0, part);
      add(*file, file->size() - part, part);
    }
  } catch (...) {
    XXH3_freeState(state);
    throw;
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace megalith::data
