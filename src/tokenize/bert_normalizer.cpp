// SPDX-License-Identifier: Apache-2.0
#include "tokenize/bert_normalizer.h"

#include <array>

#include "characters/tokenizer_class.h"
#include "characters/utf8.h"

namespace megalith::tokenize {
namespace {

using characters::CodePoint;
using characters::TokenizerClasses;

bool is_ideograph(uint32_t code) {
  return (code >= 0x4E00 && code <= 0x9FFF) || (code >= 0x3400 && code <= 0x4DBF) ||
         (code >= 0x20000 && code <= 0x2A6DF) || (code >= 0x2A700 && code <= 0x2B73F) ||
         (code >= 0x2B740 && code <= 0x2B81F) || (code >= 0x2B920 && code <= 0x2CEAF) ||
         (code >= 0xF900 && code <= 0xFAFF) || (code >= 0x2F800 && code <= 0x2FA1F);
}

// What an ASCII character becomes; 0: nothing.
std::array<char, 128> ascii_table(const BertNormalizer& options) {
  std::array<char, 128> table{};
  for (size_t byte = 0; byte < 128; ++byte) {
    char c = static_cast<char>(byte);
    const bool is_space = c == '\t' || c == '\n' || c == '\r';
    if (options.clean_text && is_space) c = ' ';
    if (options.clean_text && (c < ' ' || c == 0x7F)) c = 0;
    if (options.lowercase && c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    table[byte] = c;
  }
  return table;
}

void append_lower(uint32_t code, const TokenizerClasses& classes, std::string& out) {
  const bool differs = (classes.of(code) & characters::kHasLower) != 0;
  characters::append_utf8(out, differs ? characters::lower_of(code) : code);
  if (code == 0x130) out.append("\xCC\x87");
}

class Run {
 public:
  Run(const BertNormalizer& options, const TokenizerClasses& classes)
      : options_(options), classes_(classes) {}

  /// Appends a run of characters beyond ASCII.
  void append(std::string_view run, std::string& out) {
    cleaned_.clear();
    for (size_t at = 0; at < run.size();) {
      const CodePoint point = characters::read_utf8(run.data() + at);
      clean(point.code, run.substr(at, point.length));
      at += point.length;
    }
    std::string_view text = cleaned_;
    if (options_.strip_accents) {
      decomposed_.clear();
      characters::append_normal_form(decomposed_, cleaned_, characters::NormalForm::nfd);
      text = decomposed_;
    }
    for (size_t at = 0; at < text.size();) {
      const CodePoint point = characters::read_utf8(text.data() + at);
      at += point.length;
      if (options_.strip_accents && (classes_.of(point.code) & characters::kNonspacing) != 0)
        continue;
      if (options_.lowercase) {
        append_lower(point.code, classes_, out);
      } else {
        out.append(text.substr(at - point.length, point.length));
      }
    }
  }

 private:
  void clean(uint32_t code, std::string_view bytes) {
    const uint16_t flags = classes_.of(code);
    if (options_.clean_text && (flags & characters::kRemoved) != 0) return;
    const bool is_space = options_.clean_text && (flags & characters::kWhiteSpace) != 0;
    const bool alone = options_.handle_chinese_chars && is_ideograph(code);
    if (alone) cleaned_.push_back(' ');
    cleaned_.append(is_space ? std::string_view(" ") : bytes);
    if (alone) cleaned_.push_back(' ');
  }

  const BertNormalizer& options_;
  const TokenizerClasses& classes_;
  std::string cleaned_;
  std::string decomposed_;
};

bool is_removed(const BertNormalizer& options, uint32_t code) {
  const uint16_t flags = characters::tokenizer_classes().of(code);
  return (options.clean_text && (flags & characters::kRemoved) != 0) ||
         (options.strip_accents && (flags & characters::kNonspacing) != 0);
}

size_t ascii_length(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && static_cast<uint8_t>(text[at]) < 0x80) ++at;
  return at;
}

}  // namespace

bool normalize_as_bert(const BertNormalizer& options, std::string_view text, std::string& out) {
  const std::array<char, 128> table = ascii_table(options);
  const bool keeps_nul = !options.clean_text;
  Run run(options, characters::tokenizer_classes());
  for (size_t at = 0; at < text.size();) {
    const size_t ascii = ascii_length(text.substr(at));
    size_t filled = out.size();
    out.resize(filled + ascii);
    for (size_t i = at; i < at + ascii; ++i) {
      const char c = table[static_cast<uint8_t>(text[i])];
      out[filled] = c;
      filled += static_cast<size_t>(c != 0 || keeps_nul);
    }
    out.resize(filled);
    at += ascii;
    const size_t begin = at;
    while (at < text.size() && static_cast<uint8_t>(text[at]) >= 0x80) ++at;
    if (begin < at) run.append(text.substr(begin, at - begin), out);
  }
  return text.empty() || !is_removed(options, characters::read_utf8(text.data()).code);
}

void append_lower(std::string_view text, std::string& out) {
  const TokenizerClasses& classes = characters::tokenizer_classes();
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = characters::read_utf8(text.data() + at);
    append_lower(point.code, classes, out);
    at += point.length;
  }
}

}  // namespace megalith::tokenize
