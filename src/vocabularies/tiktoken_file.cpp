// SPDX-License-Identifier: Apache-2.0
#include "vocabularies/tiktoken_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/check.h"
#include "base/error.h"
#include "text/base64.h"
#include "tokenize/split.h"
#include "vocabularies/ranked_tokens.h"

namespace megalith::vocabularies {
namespace {

using Special = RankedTokens::Special;

constexpr int32_t kMaxRank = 1 << 22;

// Special tokens with their ids counted from the first rank that the file leaves free.
struct Encoding {
  std::string_view pattern;
  std::vector<Special> specials;
};

std::vector<Special> llama3_specials() {
  std::vector<Special> specials;
  const auto add = [&](std::string text) {
    specials.push_back({std::move(text), static_cast<int32_t>(specials.size())});
  };
  for (const char* text : {"<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>",
                           "<|reserved_special_token_1|>", "<|finetune_right_pad_id|>",
                           "<|step_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>",
                           "<|eot_id|>", "<|python_tag|>", "<|image|>"})
    add(text);
  for (int i = 2; specials.size() < 256; ++i) add(fmt::format("<|reserved_special_token_{}|>", i));
  return specials;
}

std::vector<Special> qwen_specials() {
  std::vector<Special> specials{{"<|endoftext|>", 0}, {"<|im_start|>", 1}, {"<|im_end|>", 2}};
  for (int32_t i = 0; i < 205; ++i) specials.push_back({fmt::format("<|extra_{}|>", i), i + 3});
  return specials;
}

std::vector<Encoding> encodings() {
  return {{"gpt2", {{"<|endoftext|>", 0}}},
          {"cl100k",
           {{"<|endoftext|>", 1},
            {"<|fim_prefix|>", 2},
            {"<|fim_middle|>", 3},
            {"<|fim_suffix|>", 4},
            {"<|endofprompt|>", 20}}},
          {"o200k", {{"<|endoftext|>", 1}, {"<|endofprompt|>", 20}}},
          {"llama3", llama3_specials()},
          {"qwen2", qwen_specials()}};
}

std::optional<RankedTokens::Token> read_line(std::string_view line, std::string_view where) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0) return std::nullopt;
  const std::string_view number = line.substr(space + 1);
  RankedTokens::Token token;
  const char* const end = number.data() + number.size();
  const auto [stopped, error] = std::from_chars(number.data(), end, token.rank);
  if (error != std::errc() || stopped != end || token.rank < 0 || token.rank > kMaxRank)
    return std::nullopt;
  token.bytes = text::decode_base64(line.substr(0, space), where);
  return token;
}

std::string_view take_line(std::string_view& content) {
  const size_t end = std::min(content.find('\n'), content.size());
  std::string_view line = content.substr(0, end);
  content.remove_prefix(std::min(end + 1, content.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

int32_t first_free_rank(const std::vector<RankedTokens::Token>& tokens) {
  std::vector<bool> taken(tokens.size() + 1, false);
  for (const RankedTokens::Token& token : tokens)
    if (static_cast<size_t>(token.rank) < taken.size())
      taken[static_cast<size_t>(token.rank)] = true;
  return static_cast<int32_t>(std::find(taken.begin(), taken.end(), false) - taken.begin());
}

}  // namespace

std::vector<std::string_view> tiktoken_patterns() {
  std::vector<std::string_view> names;
  for (const Encoding& encoding : encodings()) names.push_back(encoding.pattern);
  return names;
}

bool looks_like_tiktoken(std::string_view content) {
  try {
    return read_line(take_line(content), "").has_value();
  } catch (const UserError&) {
    return false;
  }
}

text::Tokenizer read_tiktoken(std::string_view content, std::string_view pattern,
                              std::string_view where) {
  RankedTokens ranked;
  for (size_t number = 1; !content.empty(); ++number) {
    const std::string_view line = take_line(content);
    if (line.empty()) continue;
    const std::string place = fmt::format("{}:{}", where, number);
    auto token = read_line(line, place);
    if (!token || token->bytes.empty())
      throw UserError("{}: not a token in base64 and its rank; is this a file of tiktoken ranks?",
                      place);
    ranked.tokens.push_back(std::move(*token));
  }
  // Ranks may leave gaps, as ids of a tokenizer.json may, whose reader has the same bound.
  const size_t limit = ranked.tokens.size() * 4 + 65536;
  for (const RankedTokens::Token& token : ranked.tokens) {
    if (static_cast<size_t>(token.rank) >= limit)
      throw UserError("{}: a rank of {} for {} tokens; a rank is below {}", where, token.rank,
                      ranked.tokens.size(), limit);
  }
  const int32_t free_rank = first_free_rank(ranked.tokens);
  for (Encoding& encoding : encodings()) {
    if (encoding.pattern != pattern) continue;
    ranked.specials = std::move(encoding.specials);
    for (Special& special : ranked.specials) special.id += free_rank;
    ranked.pattern = tokenize::pattern_regex(*tokenize::pattern_of_name(pattern));
    return make_tokenizer(ranked, where);
  }
  MEGA_CHECK(false, "the pattern {}", pattern);
}

}  // namespace megalith::vocabularies
