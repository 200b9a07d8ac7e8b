// SPDX-License-Identifier: Apache-2.0
// Text to token ids and back, as a `tokenizer.json` describes: added tokens are cut out of the raw
// text, the rest is normalised and cut into words, a model makes tokens of each word, and the
// post-processor puts special tokens around the whole. What the components do stands in the room
// `tokenize`; a file that asks for one that is not there is refused by that component's name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace megalith::text {

class DecoderRun;
struct TokenizerData;

/// The end-of-document token of the vocabularies trained here.
inline constexpr std::string_view kEndOfText = "<|endoftext|>";

/// Token ids and the type of each: which of two texts it belongs to.
struct Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;
};

/// Immutable. Copies share the tables; any number of threads may use one object.
class Tokenizer {
 public:
  explicit Tokenizer(std::shared_ptr<const TokenizerData> data);

  /// Reads a tokenizer.json. UserError names the file and what is wrong with it.
  static Tokenizer load(const std::filesystem::path& path);
  /// The same from memory; `name` stands for the file in messages. `json` is not trusted.
  static Tokenizer parse(std::string_view json, std::string_view name);
  /// The tokenizer as a tokenizer.json that behaves the same in Hugging Face `tokenizers`.
  std::string to_json() const;
  /// Writes to_json() durably.
  void save(const std::filesystem::path& path) const;

  /// One more than the largest id.
  int64_t vocab_size() const;
  /// The id of a token as the file spells it (byte alphabet, marked spaces), or nothing.
  std::optional<int32_t> id_of(std::string_view token) const;
  /// The token as the file spells it. UserError if no token has this id.
  std::string token_text(int64_t id) const;
  /// The bytes that a token of a byte-level vocabulary stands for, maybe part of a character only;
  /// of others its spelling. UserError as token_text.
  std::string_view token_bytes(int64_t id) const;
  /// True for tokens that decode leaves out.
  bool is_special(int64_t id) const;
  /// The token that ends a document: the first of `<|endoftext|>`, `<|end_of_text|>`, `</s>`,
  /// `<|im_end|>` and `[SEP]` that the file has.
  std::optional<int32_t> end_of_document() const;

  /// Encodes one document. `add_special_tokens` adds what the post-processor names (many files:
  /// none). UserError with the byte offset if `text` is not UTF-8. For many texts use an Encoder.
  std::vector<int32_t> encode(std::string_view text, bool add_special_tokens) const;
  /// The same of one text, or of a pair of texts as the post-processor joins them, with types.
  Encoding encode_typed(std::string_view text, std::optional<std::string_view> pair,
                        bool add_special_tokens) const;
  /// The text of `ids`. Broken UTF-8 becomes U+FFFD (with byte fallback: one for each byte of a run
  /// of byte tokens that is broken). Special tokens are left out unless kept. UserError if an id
  /// has no token.
  std::string decode(std::span<const int32_t> ids, bool keep_special = false) const;

  const TokenizerData& data() const { return *data_; }

 private:
  std::shared_ptr<const TokenizerData> data_;
};

/// Encodes many texts on one thread: remembers the words it has seen, in bounded memory.
class Encoder {
 public:
  /// `cache_words` is rounded up to a power of two; 64 bytes each.
  explicit Encoder(const Tokenizer& tokenizer, size_t cache_words = size_t{1} << 15);
  ~Encoder();
  Encoder(Encoder&&) noexcept;
  Encoder& operator=(Encoder&&) noexcept;

  /// Appends the ids of one document to `ids`, which is left as it was if this throws.
  void encode(std::string_view text, std::vector<int32_t>& ids, bool add_special_tokens);
  /// The same of one text or a pair, with types.
  void encode_typed(std::string_view text, std::optional<std::string_view> pair, Encoding& encoding,
                    bool add_special_tokens);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Decodes token by token, for streaming. All results of push() and finish(), joined, are decode()
/// of all ids, and no piece ends within a character.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool keep_special = false);
  ~StreamDecoder();
  StreamDecoder(StreamDecoder&&) noexcept;
  StreamDecoder& operator=(StreamDecoder&&) noexcept;
  /// The text that this id settles. Held back are the beginning of an unfinished character, with
  /// byte fallback the whole of a run of byte tokens, since a later one can break it, and all of a
  /// text whose decoder changes it once it is whole. UserError if the id has no token.
  std::string push(int32_t id);
  /// The text held back. Afterwards the decoder is as new.
  std::string finish();

 private:
  friend class Tokenizer;
  void append(int32_t id, std::string& text);

  Tokenizer tokenizer_;
  bool keep_special_;
  std::unique_ptr<DecoderRun> run_;
};

}  // namespace megalith::text
