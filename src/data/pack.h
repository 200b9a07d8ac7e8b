// SPDX-License-Identifier: Apache-2.0
// Text files to a corpus of tokens: reads .txt and .jsonl (plain, gzip or zstd), encodes on all
// threads, ends every document with the end-of-document token, and writes PREFIX.bin and
// PREFIX.idx. A stream from end to end; the bytes written do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/encode_pipeline.h"

namespace megalith::text {
class Tokenizer;
}

namespace megalith::data {

/// What is one document in a text file: the whole file, a line, or the lines between blank lines.
enum class DocumentMode { file, line, paragraph };

struct PackOptions {
  /// Names ending in .jsonl or .ndjson (possibly followed by .gz or .zst) are JSON lines, all
  /// others text. "-" is standard input: JSON lines if `field` is given, else text.
  std::vector<std::filesystem::path> inputs;
  std::filesystem::path output_prefix;
  std::optional<std::string> field;      // of JSON lines; "text" unless given
  std::optional<DocumentMode> document;  // of text; file unless given
  bool special_tokens = false;           // documents stand between those of the post-processor
  bool sentences = false;  // each line of a document is a sequence; no end is put behind a document
  int threads = 0;         // encoders; 0: all cores the process may use
};

struct PackProgress {
  int64_t documents = 0;
  int64_t bytes = 0;  // of the documents' text, unpacked
  int64_t tokens = 0;
};

struct PackResult : PackProgress {
  double seconds = 0;
};

/// Called with the sums so far, about once per half megabyte of text, on the calling thread.
using PackProgressFunction = std::function<void(const PackProgress&)>;

/// Packs with a tokenizer. UserError for inputs that cannot be read as asked, if there are no
/// documents at all, and for a tokenizer without an end-of-document token, or without the special
/// tokens that are asked for; no file is written then.
PackResult pack(const text::Tokenizer& tokenizer, const PackOptions& options,
                const PackProgressFunction& progress = {});

/// The same with any encoder; `end_of_document` is appended to every document, but to one that ends
/// with it where `special_tokens` put it there.
PackResult pack_with(const EncoderFactory& encoders, int64_t vocab_size, int32_t end_of_document,
                     const PackOptions& options, const PackProgressFunction& progress = {});

}  // namespace megalith::data
