// SPDX-License-Identifier: Apache-2.0
// The names are llama.cpp's (src/llama-vocab.cpp), which takes them from the tokenizer.json files
// of the models.
#include "vocabularies/gguf_pre_tokenizers.h"

#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "tokenize/split.h"
#include "vocabularies/stage_options.h"

namespace megalith::vocabularies {
namespace {

using tokenize::SplitPattern;

struct Row {
  std::string_view name;
  SplitPattern pattern;
  bool single_digits = false;  // each digit is a word, before the pattern
  bool ignore_merges = false;
  bool add_bos = false;
  bool as_roberta = false;
};

constexpr Row kRows[] = {
    {"gpt-2", SplitPattern::gpt2},
    {"phi-2", SplitPattern::gpt2},
    {"gigachat", SplitPattern::gpt2},
    {"modern-bert", SplitPattern::gpt2},
    {"mpt", SplitPattern::gpt2},
    {"olmo", SplitPattern::gpt2},
    {"jais", SplitPattern::gpt2},
    {"exaone4", SplitPattern::gpt2},
    {"roberta-bpe", SplitPattern::gpt2, false, false, false, true},
    {"jina-v1-en", SplitPattern::gpt2, false, false, false, true},
    {"jina-v2-code", SplitPattern::gpt2, false, false, false, true},
    {"jina-v2-es", SplitPattern::gpt2},
    {"jina-v2-de", SplitPattern::gpt2},
    {"smollm", SplitPattern::gpt2, true},
    {"starcoder", SplitPattern::gpt2, true},
    {"refact", SplitPattern::gpt2, true},
    {"command-r", SplitPattern::gpt2, true},
    {"codeshell", SplitPattern::gpt2, true},
    {"exaone", SplitPattern::gpt2, true},
    {"minerva-7b", SplitPattern::gpt2, true},
    {"llama-bpe", SplitPattern::llama3, false, true, true},
    {"llama3", SplitPattern::llama3, false, true, true},
    {"llama-v3", SplitPattern::llama3, false, true, true},
    {"falcon3", SplitPattern::llama3, false, true, true},
    {"pixtral", SplitPattern::llama3, false, true, true},
    {"lfm2", SplitPattern::llama3, false, true, true},
    {"dbrx", SplitPattern::llama3},
    {"smaug-bpe", SplitPattern::llama3},
    {"chatglm-bpe", SplitPattern::llama3},
    {"glm4", SplitPattern::llama3},
    {"qwen2", SplitPattern::qwen2},
    {"deepseek-r1-qwen", SplitPattern::qwen2},
    {"stablelm2", SplitPattern::qwen2},
    {"megrez", SplitPattern::qwen2},
    {"hunyuan", SplitPattern::qwen2},
    {"gpt-4o", SplitPattern::o200k},
    {"llama4", SplitPattern::o200k},
    {"tekken", SplitPattern::tekken, false, true, true},
};

Json pre_tokenizer_of(const Row& row) {
  const bool is_gpt2 = row.pattern == SplitPattern::gpt2;
  const Json bytes = {{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"trim_offsets", true},
                      {"use_regex", is_gpt2}};
  if (is_gpt2 && !row.single_digits) return bytes;
  const Json first = row.single_digits
                         ? Json{{"type", "Digits"}, {"individual_digits", true}}
                         : Json{{"type", "Split"},
                                {"pattern", {{"Regex", tokenize::pattern_regex(row.pattern)}}},
                                {"behavior", "Isolated"},
                                {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {first, bytes}}};
}

// What a pre-tokenizer does, if it is one of these.
struct ByteWords {
  SplitPattern pattern = SplitPattern::none;
  bool single_digits = false;
  bool ends_in_bytes = false;
};

// Its pattern covers the text, so it is the same to ask for what lies between its matches.
bool is_plain_split(const Json& step) {
  const bool invert = option(step, "invert", false);
  return option(step, "behavior", "Isolated") == (invert ? "Removed" : "Isolated") &&
         option(step, "pattern", Json::object()).contains("Regex");
}

// False if the step has no place behind those before it.
bool add_step(const Json& step, ByteWords& words) {
  const std::string type = option(step, "type", "");
  const bool has_pattern = words.pattern != SplitPattern::none;
  if (words.ends_in_bytes) return false;
  if (type == "Digits" && !has_pattern && option(step, "individual_digits", false))
    return words.single_digits = true;
  if (type == "Split" && !has_pattern && is_plain_split(step)) {
    const std::string regex = option(step.at("pattern"), "Regex", "");
    words.pattern = tokenize::pattern_of_regex(regex).value_or(SplitPattern::none);
    return words.pattern != SplitPattern::none;
  }
  if (type != "ByteLevel" || option(step, "add_prefix_space", true)) return false;
  if (option(step, "use_regex", true) == has_pattern) return false;
  if (!has_pattern) words.pattern = SplitPattern::gpt2;
  return words.ends_in_bytes = true;
}

}  // namespace

std::optional<std::string_view> gguf_pre_tokenizer_name(const GgufPreTokenizer& wanted) {
  ByteWords words;
  for (const Json& step : components(wanted.pre_tokenizer, "pretokenizers"))
    if (!add_step(step, words)) return std::nullopt;
  if (!words.ends_in_bytes) return std::nullopt;
  for (const Row& row : kRows)
    if (row.pattern == words.pattern && row.single_digits == words.single_digits &&
        row.ignore_merges == wanted.ignore_merges && row.as_roberta == wanted.as_roberta)
      return row.name;
  return std::nullopt;
}

std::optional<GgufPreTokenizer> gguf_pre_tokenizer(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name)
      return GgufPreTokenizer{pre_tokenizer_of(row), row.ignore_merges, row.add_bos,
                              row.as_roberta};
  return std::nullopt;
}

std::string gguf_pre_tokenizer_names() {
  std::vector<std::string_view> names;
  for (const Row& row : kRows) names.push_back(row.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace megalith::vocabularies
