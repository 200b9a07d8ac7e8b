// SPDX-License-Identifier: Apache-2.0
#include "vocabularies/ranked_tokens.h"

#include <algorithm>

#include "base/error.h"
#include "text/tokenizer_parts.h"
#include "tokenize/byte_level.h"
#include "vocabularies/merges.h"
#include "vocabularies/post_processor.h"

namespace megalith::vocabularies {
namespace {

// Where special tokens are none of a text's, characters do not go on across one that is left out.
Json stages_of(const RankedTokens& ranked) {
  const Json bytes = {{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"trim_offsets", true},
                      {"use_regex", false}};
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", ranked.pattern}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  Json decoder = bytes;
  if (!ranked.specials_in_text) decoder["parted"] = true;
  return {{"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}}},
          {"post_processor", nullptr},
          {"decoder", decoder},
          {"model", {{"type", "BPE"}, {"ignore_merges", true}}}};
}

void require_all_bytes(const RankedTokens& ranked, std::string_view where) {
  std::vector<bool> found(256, false);
  for (const RankedTokens::Token& token : ranked.tokens)
    if (token.bytes.size() == 1) found[static_cast<uint8_t>(token.bytes[0])] = true;
  const auto missing = std::find(found.begin(), found.end(), false);
  if (missing != found.end())
    throw UserError("{}: the byte 0x{:02X} has no token", where, missing - found.begin());
}

}  // namespace

text::Tokenizer make_tokenizer(const RankedTokens& ranked, std::string_view where) {
  require_all_bytes(ranked, where);
  text::TokenizerParts parts;
  parts.stages = stages_of(ranked).dump();
  std::vector<MergeToken> all, made;
  for (const RankedTokens::Token& token : ranked.tokens) {
    const int32_t id = ranked.first_id + token.rank;
    parts.tokens.push_back({id, tokenize::bytes_to_token(token.bytes)});
    all.push_back({token.bytes, id});
    if (token.bytes.size() > 1) made.push_back({token.bytes, id, -static_cast<double>(token.rank)});
  }
  for (const RankedTokens::Special& special : ranked.specials) {
    parts.tokens.push_back({special.id, special.text});
    parts.added_tokens.push_back({.id = special.id,
                                  .content = special.text,
                                  .special = true,
                                  .in_text = ranked.specials_in_text});
  }
  Merges merges = find_merges(all, std::move(made), where);
  parts.merges = std::move(merges.pairs);
  parts.merge_ranks = std::move(merges.ranks);
  return text::assemble_tokenizer(std::move(parts), where);
}

}  // namespace megalith::vocabularies
