// SPDX-License-Identifier: Apache-2.0
// Tokens back to text: a row of steps, each a decoder of tokenizer.json. A step takes the tokens of
// one text in order and gives tokens to the next; what the last one gives, joined, is the text.
// Steps give on what is settled as soon as it is, so that a text can be streamed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenize/regex.h"

namespace megalith::text {

/// Bytes of the byte alphabet; all tokens become one, and broken UTF-8 in it U+FFFD.
struct ByteLevelDecoder {
  bool parted = false;  // characters do not go on across a token that is left out
};
/// A space before each token but the first and those with the prefix, which goes.
struct WordPieceDecoder {
  std::string prefix = "##";
  bool cleanup = true;  // of the spaces before English punctuation and contractions
};
/// Marks become spaces, but go from the first token where the text was given one.
struct MetaspaceDecoder {
  std::string replacement;
  bool prepended = true;
};
/// The suffix becomes a space, in the last token nothing.
struct SuffixDecoder {
  std::string suffix = "</w>";
};
/// Runs of byte tokens (`<0x0A>`) become text.
struct ByteFallbackDecoder {};
/// All tokens become one.
struct FuseDecoder {};
/// Up to so many of a character at the ends of each token go.
struct StripDecoder {
  std::string content;  // one character
  uint64_t start = 0;
  uint64_t stop = 0;
};
struct ReplaceDecoder {
  std::string from;  // not empty
  std::string to;
};
struct ReplaceMatchesDecoder {
  std::shared_ptr<const tokenize::Regex> regex;
  std::string to;
};
/// What the SentencePiece library does: marks become spaces, byte tokens text, with one U+FFFD for
/// each byte that is part of no character; the mark goes that was put before the text.
struct SentencePieceDecoder {
  std::string unknown;          // as the token is spelled
  std::string unknown_surface;  // what stands for it
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool byte_fallback = false;
};
/// A space between tokens: what a file without a decoder means.
struct SpaceDecoder {};

using DecoderStep =
    std::variant<ByteLevelDecoder, WordPieceDecoder, MetaspaceDecoder, SuffixDecoder,
                 ByteFallbackDecoder, FuseDecoder, StripDecoder, ReplaceDecoder,
                 ReplaceMatchesDecoder, SentencePieceDecoder, SpaceDecoder>;

class Decoder {
 public:
  Decoder() : Decoder(std::vector<DecoderStep>{}) {}
  explicit Decoder(std::vector<DecoderStep> steps);

  /// True if joining the bytes of tokens and repairing the result is all there is to do.
  bool only_joins_bytes() const;

 private:
  friend class DecoderRun;
  std::vector<DecoderStep> steps_;
  /// From here on there is one token. Steps that can take it in parts do; else it is held whole.
  size_t one_token_from_ = SIZE_MAX;
  bool in_parts_ = true;
};

/// One text's way through the steps.
class DecoderRun {
 public:
  explicit DecoderRun(const Decoder& decoder)
      : decoder_(&decoder), states_(decoder.steps_.size()) {}
  /// Appends to `text` what the next token, spelled as in the file, settles.
  void push(std::string_view token, std::string& text);
  /// Says that a token is left out here, where some decoders do not join what is around it.
  void pass_over(std::string& text);
  /// Appends what is left. Afterwards the run is as new.
  void finish(std::string& text);

 private:
  struct State {
    uint64_t tokens = 0;  // taken so far
    uint64_t stripped = 0;
    bool is_stripping = true;  // at the start of a token that comes in parts
    bool holds = false;
    std::string held;
    uint64_t given = 0;  // bytes of text (SentencePieceDecoder)
  };
  void step(size_t at, std::string_view token, std::string& text);
  void give(size_t at, std::string_view token, std::string& text) { step(at + 1, token, text); }
  void take(const ByteLevelDecoder&, size_t at, std::string_view token, std::string& text);
  void take(const WordPieceDecoder&, size_t at, std::string_view token, std::string& text);
  void take(const MetaspaceDecoder&, size_t at, std::string_view token, std::string& text);
  void take(const SuffixDecoder&, size_t at, std::string_view token, std::string& text);
  void take(const ByteFallbackDecoder&, size_t at, std::string_view token, std::string& text);
  void take(const FuseDecoder&, size_t at, std::string_view token, std::string& text);
  void take(const StripDecoder&, size_t at, std::string_view token, std::string& text);
  void take(const ReplaceDecoder&, size_t at, std::string_view token, std::string& text);
  void take(const ReplaceMatchesDecoder&, size_t at, std::string_view token, std::string& text);
  void take(const SentencePieceDecoder&, size_t at, std::string_view token, std::string& text);
  void take(const SpaceDecoder&, size_t at, std::string_view token, std::string& text);
  void end_bytes(size_t at, std::string& text);
  void flush(size_t at, std::string& text);

  const Decoder* decoder_;
  std::vector<State> states_;
};

}  // namespace megalith::text
