// SPDX-License-Identifier: Apache-2.0
#include "vocabularies/load_tokenizer.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "gguf/reader.h"
#include "text/tokenizer_json.h"
#include "vocabularies/gguf_vocabulary.h"
#include "vocabularies/sentencepiece_file.h"
#include "vocabularies/tekken_file.h"
#include "vocabularies/tiktoken_file.h"

namespace megalith::vocabularies {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNames[] = {"tokenizer.json", "tokenizer.model", "tekken.json"};

fs::path file_of(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  for (const std::string_view name : kNames)
    if (fs::exists(path / name, error)) return path / name;
  throw UserError("{}: the folder has no {}", path.string(), fmt::join(kNames, ", "));
}

bool is_json(std::string_view content) {
  const size_t first = content.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && content[first] == '{';
}

text::Tokenizer parse(std::string_view content, const std::string& name) {
  if (is_json(content)) {
    if (looks_like_tekken(content)) return read_tekken(content, name);
    return text::Tokenizer::parse(content, name);
  }
  if (looks_like_tiktoken(content))
    throw UserError("{}: is a file of tiktoken ranks; say which with --pattern {}", name,
                    fmt::join(tiktoken_patterns(), "|"));
  if (looks_like_sentencepiece(content))
    return make_tokenizer(read_sentencepiece(content, name), name);
  throw UserError(
      "{}: is neither a tokenizer.json, nor a SentencePiece model, a tekken.json, tiktoken ranks "
      "or a GGUF file",
      name);
}

}  // namespace

text::Tokenizer load_tokenizer(const fs::path& path, const std::string& pattern) {
  const fs::path file = file_of(path);
  const std::string name = file.string();
  if (gguf::is_gguf_file(file)) {
    if (!pattern.empty()) throw UserError("{}: --pattern is for a file of tiktoken ranks", name);
    return read_gguf_vocabulary(gguf::Reader(file).metadata(), name);
  }
  const std::string content = read_file(file, text::kMaxTokenizerBytes);
  if (pattern.empty()) return parse(content, name);
  const std::vector<std::string_view> known = tiktoken_patterns();
  if (std::find(known.begin(), known.end(), pattern) == known.end())
    throw UserError("--pattern {} is unknown; choose {}", pattern, fmt::join(known, ", "));
  if (!looks_like_tiktoken(content))
    throw UserError("{}: --pattern is for a file of tiktoken ranks, and this is none", name);
  return read_tiktoken(content, pattern, name);
}

}  // namespace megalith::vocabularies
