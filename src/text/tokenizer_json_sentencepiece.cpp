// SPDX-License-Identifier: Apache-2.0
// What a tokenizer made of a SentencePiece model adds to its normalizer and its decoder: options of
// the library, which hold in place of the components that come near it for other readers.
#include "text/base64.h"
#include "text/tokenizer_json_stages.h"

namespace megalith::text {
namespace {

// The pieces that users defined: added tokens that are looked for in the normalised text.
std::shared_ptr<const tokenize::PieceTrie> user_pieces(const TokenizerData& data) {
  std::vector<tokenize::PieceTrie::Piece> pieces;
  for (const AddedToken& token : data.added_tokens)
    if (token.normalized && token.in_text && !token.content.empty())
      pieces.push_back({token.content, token.id});
  return pieces.empty() ? nullptr : std::make_shared<const tokenize::PieceTrie>(pieces);
}

}  // namespace

tokenize::SentencePieceNormalizer read_sentencepiece_normalizer(const JsonSource& root,
                                                                const TokenizerData& data) {
  const JsonSource options = root.object("normalizer").object("sentencepiece");
  tokenize::SentencePieceNormalizer step;
  step.add_dummy_prefix = options.boolean("add_dummy_prefix", step.add_dummy_prefix);
  step.remove_extra_whitespaces =
      options.boolean("remove_extra_whitespaces", step.remove_extra_whitespaces);
  step.escape_whitespaces = options.boolean("escape_whitespaces", step.escape_whitespaces);
  step.whitespace_as_suffix =
      options.boolean("treat_whitespace_as_suffix", step.whitespace_as_suffix);
  step.kept = user_pieces(data);
  for (const JsonSource& part : components(root, "normalizer", "normalizers")) {
    if (part.string("type") != "Precompiled") continue;
    const std::string rules = decode_base64(part.string("precompiled_charsmap"), part.where());
    step.rules = std::make_shared<const tokenize::CharsMap>(rules, part.where());
  }
  return step;
}

SentencePieceDecoder read_sentencepiece_decoder(const JsonSource& options) {
  SentencePieceDecoder step;
  step.unknown = options.string("unknown");
  step.unknown_surface = options.string("unknown_surface");
  step.add_dummy_prefix = options.boolean("add_dummy_prefix", step.add_dummy_prefix);
  step.remove_extra_whitespaces =
      options.boolean("remove_extra_whitespaces", step.remove_extra_whitespaces);
  step.byte_fallback = options.boolean("byte_fallback", step.byte_fallback);
  return step;
}

}  // namespace megalith::text
