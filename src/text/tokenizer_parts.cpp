// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_parts.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "text/tokenizer_json_stages.h"

namespace megalith::text {
namespace {

void add_tokens(const TokenizerParts& parts, std::string_view where, TokenizerData& data) {
  for (const TokenizerParts::Token& token : parts.tokens) {
    data.vocabulary.add(token.id, token.spelling, where);
    data.model_ids.push_back(token.id);
  }
  std::sort(data.model_ids.begin(), data.model_ids.end());
  if (!is_unigram(data.kind)) return;
  data.scores.resize(static_cast<size_t>(data.vocabulary.size()));
  if (data.scores.size() != parts.tokens.size())
    throw UserError("{}: {} pieces have ids up to {}", where, parts.tokens.size(),
                    data.scores.size() - 1);
  for (const TokenizerParts::Token& token : parts.tokens)
    data.scores[static_cast<size_t>(token.id)] = token.score;
}

}  // namespace

Tokenizer assemble_tokenizer(TokenizerParts parts, std::string_view where) {
  simdjson::dom::parser parser;
  const JsonSource root(parse_tokenizer_json(parts.stages, where, parser), where);
  auto data = std::make_shared<TokenizerData>();
  data->added_tokens = std::move(parts.added_tokens);
  read_stages(root, *data);
  add_tokens(parts, where, *data);
  data->merges = std::move(parts.merges);
  data->merge_ranks = std::move(parts.merge_ranks);
  data->unused_ids = std::move(parts.unused_ids);
  const JsonSource model = root.object("model");
  if (is_unigram(data->kind)) data->unk_token = model.string("unk_token");
  complete_tokenizer(root, *data);
  return Tokenizer(std::move(data));
}

}  // namespace megalith::text
