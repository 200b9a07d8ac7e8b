// SPDX-License-Identifier: Apache-2.0
#include "vocabularies/tekken_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "text/base64.h"
#include "text/json_source.h"
#include "text/tokenizer_json.h"
#include "vocabularies/ranked_tokens.h"

namespace megalith::vocabularies {
namespace {

using text::JsonElement;
using text::JsonSource;

constexpr size_t kMaxDepth = 32;
constexpr uint64_t kMaxTokens = 1 << 22;
constexpr uint64_t kMaxSpecials = 1 << 16;
constexpr size_t kSearchedBytes = size_t{4} << 20;

// Of files of the versions that do not list theirs.
constexpr std::string_view kOldSpecials[] = {"<unk>",
                                             "<s>",
                                             "</s>",
                                             "[INST]",
                                             "[/INST]",
                                             "[AVAILABLE_TOOLS]",
                                             "[/AVAILABLE_TOOLS]",
                                             "[TOOL_RESULTS]",
                                             "[/TOOL_RESULTS]",
                                             "[TOOL_CALLS]",
                                             "[IMG]",
                                             "<pad>",
                                             "[IMG_BREAK]",
                                             "[IMG_END]",
                                             "[PREFIX]",
                                             "[MIDDLE]",
                                             "[SUFFIX]",
                                             "[SYSTEM_PROMPT]",
                                             "[/SYSTEM_PROMPT]",
                                             "[TOOL_CONTENT]"};
constexpr std::string_view kOldVersions[] = {"v1", "v2", "v3", "v7"};

// The entries of a list whose ranks are their places.
std::vector<JsonSource> ranked_items(const JsonSource& root, const char* list, uint64_t most) {
  std::vector<JsonSource> items = root.items(list);
  if (items.size() > most) items.resize(most, root);
  for (size_t rank = 0; rank < items.size(); ++rank)
    if (items[rank].whole("rank", kMaxTokens) != rank)
      throw UserError("{}: {}[{}] has not the rank {}", root.where(), list, rank, rank);
  return items;
}

std::vector<RankedTokens::Special> read_specials(const JsonSource& root, const JsonSource& config,
                                                 uint64_t count) {
  std::vector<RankedTokens::Special> specials;
  const auto add = [&](std::string text) {
    specials.push_back({std::move(text), static_cast<int32_t>(specials.size())});
  };
  if (root.has("special_tokens")) {
    for (const JsonSource& item : ranked_items(root, "special_tokens", kMaxSpecials))
      add(item.string("token_str"));
  } else {
    const std::string version = config.string("version");
    if (std::find(std::begin(kOldVersions), std::end(kOldVersions), version) ==
        std::end(kOldVersions))
      throw UserError("{}: a file of version {} must list its special_tokens", root.where(),
                      version);
    for (const std::string_view text : kOldSpecials) add(std::string(text));
  }
  if (specials.size() > count)
    throw UserError("{}: {} special tokens, and default_num_special_tokens is {}", root.where(),
                    specials.size(), count);
  while (specials.size() < count) add(fmt::format("<SPECIAL_{}>", specials.size()));
  return specials;
}

}  // namespace

bool looks_like_tekken(std::string_view json) {
  const auto names = [json](std::string_view key) {
    return json.substr(0, kSearchedBytes).find(key) != std::string_view::npos;
  };
  return names("\"token_bytes\"") && !names("\"added_tokens\"");
}

text::Tokenizer read_tekken(std::string_view json, std::string_view where) {
  if (static_cast<int64_t>(json.size()) > text::kMaxTokenizerBytes)
    throw UserError("{}: {} bytes are too many for a tokenizer (at most {})", where, json.size(),
                    text::kMaxTokenizerBytes);
  simdjson::dom::parser parser;
  JsonElement document;
  simdjson::error_code error = parser.allocate(std::max<size_t>(json.size(), 1), kMaxDepth);
  if (!error) error = parser.parse(json.data(), json.size()).get(document);
  if (error) throw UserError("{}: not a tekken.json: {}", where, simdjson::error_message(error));
  if (!document.is_object()) throw UserError("{}: not a tekken.json: not a JSON object", where);
  const JsonSource root(document, where);
  const JsonSource config = root.object("config");
  const uint64_t size = config.whole("default_vocab_size", kMaxTokens + 1);
  const uint64_t num_specials = config.whole("default_num_special_tokens", kMaxTokens + 1);
  if (size > kMaxTokens || num_specials > std::min(size, kMaxSpecials))
    throw UserError("{}: default_vocab_size and default_num_special_tokens are not possible sizes",
                    where);
  RankedTokens ranked;
  ranked.pattern = config.string("pattern");
  ranked.first_id = static_cast<int32_t>(num_specials);
  ranked.specials_in_text = false;
  const std::vector<JsonSource> items = ranked_items(root, "vocab", size - num_specials);
  if (items.size() < size - num_specials)
    throw UserError("{}: vocab has {} tokens, and default_vocab_size asks for {}", where,
                    items.size(), size - num_specials);
  // Not before: a short file may ask for very many.
  ranked.specials = read_specials(root, config, num_specials);
  for (const JsonSource& item : items) {
    const auto rank = static_cast<int32_t>(ranked.tokens.size());
    ranked.tokens.push_back({text::decode_base64(item.string("token_bytes"), where), rank});
    if (ranked.tokens.back().bytes.empty())
      throw UserError("{}: vocab[{}] has no bytes", where, rank);
  }
  return make_tokenizer(ranked, where);
}

}  // namespace megalith::vocabularies
