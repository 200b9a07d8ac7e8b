// SPDX-License-Identifier: Apache-2.0
// Cuts an input into chunks of whole documents (about half a megabyte each), so that one thread can
// read while others parse and encode, and takes the documents out of a chunk. Where chunks end
// depends on the bytes of the input alone. UTF-8 is checked here; every error names file and line.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "data/byte_source.h"

namespace megalith::data {

/// What counts as a document.
enum class Cut {
  file,       // the whole input, nothing stripped
  line,       // a line without its end (\n or \r\n); empty lines are none
  paragraph,  // lines between blank lines (empty, or only space, tab, \r), without the last line
              // end
  json        // a line's JSON object: the string in one of its fields
};

/// The largest document. A document lies in memory whole, as text and then as ids. The larger limit
/// is for a file whose size is known in advance; the other for anything from a line, a pipe or a
/// compressed file, where a small input may hold any amount.
constexpr int64_t kMaxFileDocumentBytes = int64_t{1} << 30;
constexpr int64_t kMaxDocumentBytes = int64_t{128} << 20;

/// Some whole documents of one input.
class Chunk {
 public:
  std::string_view text() const { return {bytes_.data(), size_}; }
  int64_t size() const { return static_cast<int64_t>(size_); }

  std::string name;  // of the input, for messages
  Cut cut = Cut::file;
  int64_t first_line = 1;  // of the input

 private:
  friend class ChunkReader;
  std::string bytes_;  // the text, then padding that a SIMD parser may read
  size_t size_ = 0;
};

class ChunkReader {
 public:
  /// `max_document_bytes`: one of the two limits above unless given.
  ChunkReader(std::unique_ptr<ByteSource> source, std::string name, Cut cut,
              std::optional<int64_t> max_document_bytes = {});
  /// Overwrites `chunk` with the next documents; false at the end of the input. UserError for a
  /// document larger than the maximum.
  bool next(Chunk& chunk);

 private:
  [[noreturn]] void refuse_size() const;
  bool read_block(std::string& buffer);
  size_t find_boundary(std::string_view text, size_t scanned) const;

  std::unique_ptr<ByteSource> source_;
  std::string name_;
  Cut cut_;
  int64_t max_document_bytes_;
  std::string rest_;  // after the last boundary
  int64_t line_ = 1;
  bool ended_ = false;
};

/// Takes documents out of chunks. It keeps a JSON parser, so each thread has one.
class DocumentParser {
 public:
  /// `field`: the key of the text in JSON lines.
  explicit DocumentParser(std::string field);
  ~DocumentParser();
  /// Calls visit(text) for every document in order; the text is valid until visit returns.
  /// UserError (file:line) for invalid UTF-8, malformed JSON, and a field that is missing,
  /// repeated, or not a string.
  void for_each(const Chunk& chunk, FunctionRef<void(std::string_view)> visit);

 private:
  void for_each_line(const Chunk& chunk, FunctionRef<void(std::string_view)> visit);
  void for_each_paragraph(const Chunk& chunk, FunctionRef<void(std::string_view)> visit);
  void for_each_json(const Chunk& chunk, FunctionRef<void(std::string_view)> visit);

  struct Json;
  std::unique_ptr<Json> json_;
  std::string field_;
};

}  // namespace megalith::data
