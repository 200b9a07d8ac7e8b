// SPDX-License-Identifier: Apache-2.0
// Empty documents: an empty text file or line is none (a file is mentioned in the log), an empty
// string in JSON is one that consists of its end alone, so that lines and documents keep step.
#include "data/pack.h"

#include <memory>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "data/byte_source.h"
#include "data/document_chunks.h"
#include "data/indexed_writer.h"
#include "text/tokenizer.h"

namespace megalith::data {
namespace {

bool is_json(const std::filesystem::path& input, const PackOptions& options) {
  if (input == "-") return options.field.has_value();
  std::filesystem::path name = input.filename();
  if (name.extension() == ".gz" || name.extension() == ".zst") name = name.stem();
  return name.extension() == ".jsonl" || name.extension() == ".ndjson";
}

Cut cut_of(const std::filesystem::path& input, const PackOptions& options) {
  if (is_json(input, options)) return Cut::json;
  switch (options.document.value_or(DocumentMode::file)) {
    case DocumentMode::line:
      return Cut::line;
    case DocumentMode::paragraph:
      return Cut::paragraph;
    case DocumentMode::file:
      return Cut::file;
  }
  return Cut::file;
}

/// Finds what would fail later before anything is read.
void check_inputs(const PackOptions& options) {
  if (options.inputs.empty()) throw UserError("no input: name at least one file, or - for stdin");
  bool any_json = false;
  bool any_text = false;
  int64_t standard_inputs = 0;
  for (const auto& input : options.inputs) {
    (is_json(input, options) ? any_json : any_text) = true;
    if (input == "-") {
      ++standard_inputs;
    } else {
      check_source(input);
    }
  }
  if (standard_inputs > 1) throw UserError("standard input (-) can be read only once");
  if (options.field && !any_json) {
    throw UserError("a field is named, but no input is JSON lines (.jsonl)");
  }
  if (options.document && !any_text) {
    throw UserError(
        "a document mode is named, but all inputs are JSON lines: a line is a document");
  }
  if (!options.sentences) return;
  if (options.document == DocumentMode::line)
    throw UserError(
        "sentences are the lines of a document: documents that are lines have one each");
  if (options.special_tokens)
    throw UserError("sentences get their special tokens in training; pack without them");
}

/// The chunks of all inputs, one input after another.
ChunkSource chunk_source(const PackOptions& options) {
  struct State {
    size_t next_input = 0;
    std::unique_ptr<ChunkReader> reader;
    bool any_chunk = false;
  };
  auto state = std::make_shared<State>();
  return [state, &options](Chunk& chunk) {
    while (true) {
      if (state->reader && state->reader->next(chunk)) {
        state->any_chunk = true;
        return true;
      }
      if (state->reader && !state->any_chunk) {
        log::warning("{}: empty, skipped", source_name(options.inputs[state->next_input - 1]));
      }
      if (state->next_input == options.inputs.size()) return false;
      const auto& input = options.inputs[state->next_input++];
      state->any_chunk = false;
      state->reader = std::make_unique<ChunkReader>(open_source(input), source_name(input),
                                                    cut_of(input, options));
    }
  };
}

void check_ids(const std::vector<int32_t>& ids, int64_t vocab_size) {
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size) {
      throw IntegrityError("the tokenizer gave id {} but has {} ids", id, vocab_size);
    }
  }
}

}  // namespace

PackResult pack_with(const EncoderFactory& encoders, int64_t vocab_size, int32_t end_of_document,
                     const PackOptions& options, const PackProgressFunction& progress) {
  const double start = monotonic_seconds();
  check_inputs(options);
  const int threads = options.threads > 0 ? options.threads : available_cores();
  const bool may_end = options.special_tokens;
  const EncoderFactory with_end = [&encoders, end_of_document, may_end, &options] {
    if (options.sentences) return encoders();
    return EncodeFunction([encode = encoders(), end_of_document, may_end](
                              std::string_view text, std::vector<int32_t>& ids) {
      const size_t before = ids.size();
      encode(text, ids);
      const bool ends = may_end && ids.size() > before && ids.back() == end_of_document;
      if (!ends) ids.push_back(end_of_document);
    });
  };
  PackResult result;
  write_indexed(options.output_prefix, token_type_for(vocab_size), [&](IndexedWriter& writer) {
    EncodePipeline pipeline(chunk_source(options), with_end, options.field.value_or("text"),
                            threads, options.sentences ? EncodedUnit::line : EncodedUnit::document);
    EncodedChunk encoded;
    while (pipeline.next(encoded)) {
      check_ids(encoded.ids, vocab_size);
      std::span<const int32_t> ids = encoded.ids;
      auto length = encoded.lengths.begin();
      for (const int64_t sequences : encoded.documents) {
        for (int64_t i = 0; i < sequences; ++i, ++length) {
          writer.add_sequence(ids.first(static_cast<size_t>(*length)));
          ids = ids.subspan(static_cast<size_t>(*length));
        }
        writer.end_document();
      }
      result.bytes += encoded.text_bytes;
      result.documents = writer.num_documents();
      result.tokens = writer.num_tokens();
      if (progress) progress(result);
    }
    if (result.documents == 0) throw UserError("the inputs hold no documents, only nothing");
  });
  result.seconds = monotonic_seconds() - start;
  return result;
}

PackResult pack(const text::Tokenizer& tokenizer, const PackOptions& options,
                const PackProgressFunction& progress) {
  const auto end_of_document = tokenizer.end_of_document();
  if (!end_of_document) {
    throw UserError("the tokenizer has no end-of-document token; add one, as <|endoftext|>");
  }
  const bool special_tokens = options.special_tokens;
  if (special_tokens && tokenizer.encode("", true).empty())
    throw UserError("the tokenizer puts no special tokens around a text; pack without them");
  const EncoderFactory encoders = [&tokenizer, special_tokens] {
    auto encoder = std::make_shared<text::Encoder>(tokenizer);
    return [encoder, special_tokens](std::string_view text, std::vector<int32_t>& ids) {
      encoder->encode(text, ids, special_tokens);
    };
  };
  return pack_with(encoders, tokenizer.vocab_size(), *end_of_document, options, progress);
}

}  // namespace megalith::data
