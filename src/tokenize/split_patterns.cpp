// SPDX-License-Identifier: Apache-2.0
// The names and spellings of the split patterns.
#include <string_view>

#include "base/check.h"
#include "tokenize/split.h"

namespace megalith::tokenize {
namespace {

constexpr std::string_view kO200kRegex =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt2Regex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// As tiktoken has it, but that the end of the text is \z: elsewhere $ is that of a line.
constexpr std::string_view kCl100kRegex =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]++[\r\n]*|\s++\z|\s*[\r\n]|\s+(?!\S)|\s)";
constexpr std::string_view kTekkenRegex =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct Spelling {
  std::string_view regex;
  SplitPattern pattern;
};
// The last two are older spellings of tiktoken's: possessive where backtracking could not help
// anyway.
constexpr Spelling kSpellings[] = {
    {kGpt2Regex, SplitPattern::gpt2},
    {kLlama3Regex, SplitPattern::llama3},
    {kQwen2Regex, SplitPattern::qwen2},
    {kO200kRegex, SplitPattern::o200k},
    {kCl100kRegex, SplitPattern::cl100k},
    {kTekkenRegex, SplitPattern::tekken},
    {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
     SplitPattern::gpt2},
    {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}|)"
     R"( ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
     SplitPattern::llama3},
};

}  // namespace

std::string_view pattern_name(SplitPattern pattern) {
  switch (pattern) {
    case SplitPattern::none:
      return "none";
    case SplitPattern::gpt2:
      return "gpt2";
    case SplitPattern::llama3:
      return "llama3";
    case SplitPattern::cl100k:
      return "cl100k";
    case SplitPattern::qwen2:
      return "qwen2";
    case SplitPattern::o200k:
      return "o200k";
    case SplitPattern::tekken:
      return "tekken";
  }
  MEGA_CHECK(false);
}

std::optional<SplitPattern> pattern_of_name(std::string_view name) {
  for (const SplitPattern pattern :
       {SplitPattern::none, SplitPattern::gpt2, SplitPattern::llama3, SplitPattern::cl100k,
        SplitPattern::qwen2, SplitPattern::o200k, SplitPattern::tekken})
    if (pattern_name(pattern) == name) return pattern;
  return std::nullopt;
}

std::string_view pattern_regex(SplitPattern pattern) {
  for (const Spelling& spelling : kSpellings)
    if (spelling.pattern == pattern) return spelling.regex;
  return {};
}

std::optional<SplitPattern> pattern_of_regex(std::string_view regex) {
  for (const Spelling& spelling : kSpellings)
    if (spelling.regex == regex) return spelling.pattern;
  return std::nullopt;
}

}  // namespace megalith::tokenize
