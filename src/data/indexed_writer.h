// SPDX-License-Identifier: Apache-2.0
// Writes PREFIX.bin and PREFIX.idx as a stream. Memory grows neither with tokens nor with
// documents: the lengths of the sequences wait in a nameless temporary file until their number is
// known. Both files appear by renames at the very end, data before index; while older files are
// replaced there is never an index beside data it does not describe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/file.h"
#include "base/file_hash.h"
#include "base/function_ref.h"
#include "data/index_format.h"

namespace megalith::data {

class IndexedWriter {
 public:
  /// Appends one sequence to the current document. Ids must fit the token type.
  void add_sequence(std::span<const int32_t> ids);
  /// Ends the document; a document may have no sequences.
  void end_document();
  /// One sequence as a document.
  void add_document(std::span<const int32_t> ids) {
    add_sequence(ids);
    end_document();
  }
  int64_t num_tokens() const { return num_tokens_; }
  int64_t num_documents() const { return num_documents_; }

 private:
  friend void write_indexed(const std::filesystem::path& prefix, TokenType type,
                            FunctionRef<void(IndexedWriter&)> fill);
  IndexedWriter(File& bin, const std::filesystem::path& prefix, TokenType type);
  void spill(int32_t entry);
  void write_tokens();
  /// Returns the corpus's fingerprint.
  std::string finish(File& idx);

  File& bin_;
  TokenType type_;
  File spill_;           // int32 each: a sequence's length, or kDocumentEnd
  std::string spilled_;  // not yet written to spill_
  std::string buffer_;   // not yet written to bin_
  FileHash hash_;        // of bin_
  int64_t num_tokens_ = 0;
  int64_t num_sequences_ = 0;
  int64_t num_documents_ = 0;
};

/// Calls `fill` with a writer, then makes both files durable and visible. If `fill` or a write
/// throws, older files under this prefix stay unchanged and no new ones remain.
void write_indexed(const std::filesystem::path& prefix, TokenType type,
                   FunctionRef<void(IndexedWriter&)> fill);

}  // namespace megalith::data
