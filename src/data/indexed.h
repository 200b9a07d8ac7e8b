// SPDX-License-Identifier: Apache-2.0
// Reads a corpus of packed tokens (`PREFIX.bin`, `PREFIX.idx`; index_format.h). Opening reads a few
// numbers whatever the size: nothing is scanned, mapped or built, so a corpus of a terabyte opens
// like one of a kilobyte. Reads use pread, so a file that shrinks during a run is an
// IntegrityError, not a SIGBUS. All const functions may be called from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/thread_pool.h"
#include "data/fingerprint.h"
#include "data/index_format.h"

namespace megalith::data {

class IndexedDataset {
 public:
  /// Opens PREFIX.bin and PREFIX.idx and checks the header, the sizes, and the first and last entry
  /// of each array. UserError if a file is absent, IntegrityError naming file and fault if they
  /// disagree.
  explicit IndexedDataset(const std::filesystem::path& prefix);

  const std::filesystem::path& prefix() const { return prefix_; }
  TokenType token_type() const { return header_.type; }
  int64_t num_tokens() const { return num_tokens_; }
  int64_t num_sequences() const { return header_.num_sequences; }
  int64_t num_documents() const { return header_.num_documents; }

  /// Overwrites `out` with the tokens [first, first + out.size()) of the concatenated corpus. An id
  /// outside [0, vocab_size) is an IntegrityError naming its position.
  void read(int64_t first, std::span<int32_t> out, int64_t vocab_size) const;

  /// The position of the first token of `document`; num_tokens() for num_documents().
  /// IntegrityError if an entry of the index does not fit its neighbours.
  int64_t document_begin(int64_t document) const;
  /// The position of the first token of `sequence`; num_tokens() for num_sequences().
  /// IntegrityError if its entry does not fit the one before it.
  int64_t sequence_begin(int64_t sequence) const;
  /// Tokens of each of some sequences. IntegrityError where one is negative.
  std::vector<int32_t> sequence_lengths(Range sequences) const;
  /// The first sequence of each of some documents, and the end of the last. IntegrityError where
  /// they decrease or leave the corpus.
  std::vector<int64_t> document_sequences(Range documents) const;
  /// The document that holds token `token` (a binary search, no table).
  int64_t document_of(int64_t token) const;

  /// Reads the whole index and checks every invariant: lengths are not negative, offsets are their
  /// prefix sums, document indices go from 0 to S without decreasing. IntegrityError names file and
  /// entry.
  void verify_index() const;
  /// verify_index(), then every token of .bin against `vocab_size`.
  void verify(int64_t vocab_size) const;

  /// The fingerprint over all bytes (fingerprint.h): the recorded one if it still applies, else
  /// computed and recorded. That reads the whole corpus, some GB a second.
  std::string fingerprint(const AtWork& at_work = {}) const;
  /// The fingerprint that older checkpoints recorded, in constant time: XXH3-128 over the first 34
  /// bytes of .idx, the sizes of both files (u64 little-endian), and the first and the last
  /// min(1 MiB, size) bytes of .idx and then of .bin, as 32 hexadecimal digits. Misses changes in
  /// between.
  std::string fingerprint_of_ends() const;

 private:
  void require_no_gap(int64_t sequence, int64_t pointer) const;
  template <typename T>
  T index_entry(int64_t array_offset, int64_t index) const;

  std::filesystem::path prefix_;
  File idx_;
  File bin_;
  IndexHeader header_;
  int64_t num_tokens_ = 0;
};

}  // namespace megalith::data
