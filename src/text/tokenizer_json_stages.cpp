// SPDX-License-Identifier: Apache-2.0
// Normalizer and pre-tokenizer.
#include "text/tokenizer_json_stages.h"

#include "base/error.h"
#include "characters/utf8.h"
#include "text/base64.h"

namespace megalith::text {

void refuse(const JsonSource& source, std::string_view stage, std::string_view what) {
  throw UserError("{}: the {} \"{}\" is not supported here", source.where(), stage, what);
}

namespace {

void append_components(const JsonSource& component, const char* stage, const char* list,
                       std::vector<JsonSource>& found) {
  if (component.string("type") == "Sequence") {
    for (const JsonSource& part : component.items(list))
      append_components(part, stage, list, found);
    return;
  }
  if (found.size() == kMaxComponents)
    throw UserError("{}: the {} has more than {} components", component.where(), stage,
                    kMaxComponents);
  found.push_back(component);
}

// The pattern of a Replace or Split: a text, or else a regular expression.
struct Pattern {
  std::string text;
  std::shared_ptr<const tokenize::Regex> regex;
};

Pattern read_pattern(const JsonSource& part, std::string_view stage) {
  const JsonSource pattern = part.object("pattern");
  if (pattern.has("Regex")) {
    const std::string regex = pattern.string("Regex");
    return {"", std::make_shared<const tokenize::Regex>(regex, part.where())};
  }
  const std::string text = pattern.string("String");
  if (text.empty()) refuse(part, stage, part.string("type") + " of nothing");
  return {text, nullptr};
}

tokenize::NormalizerStep read_replace(const JsonSource& part) {
  const Pattern pattern = read_pattern(part, "normalizer");
  const std::string to = part.string("content");
  if (pattern.regex) return tokenize::ReplaceMatches{pattern.regex, to};
  return tokenize::ReplaceText{pattern.text, to};
}

tokenize::NormalizerStep read_normalizer_step(const JsonSource& part) {
  using characters::NormalForm;
  const std::string type = part.string("type");
  if (type == "NFC") return NormalForm::nfc;
  if (type == "NFD") return NormalForm::nfd;
  if (type == "NFKC") return NormalForm::nfkc;
  if (type == "NFKD") return NormalForm::nfkd;
  if (type == "Lowercase") return tokenize::Lowercase{};
  if (type == "StripAccents") return tokenize::StripAccents{};
  if (type == "Nmt") return tokenize::Nmt{};
  if (type == "ByteLevel") return tokenize::ByteCharacters{};
  if (type == "Prepend") return tokenize::Prepend{part.string("prepend")};
  if (type == "Strip")
    return tokenize::StripSpace{part.boolean("strip_left", true),
                                part.boolean("strip_right", true)};
  if (type == "Replace") return read_replace(part);
  if (type == "Precompiled") {
    const std::string rules = decode_base64(part.string("precompiled_charsmap"), part.where());
    return std::make_shared<const tokenize::CharsMap>(rules, part.where());
  }
  if (type == "BertNormalizer") {
    tokenize::BertNormalizer bert;
    bert.clean_text = part.boolean("clean_text", true);
    bert.handle_chinese_chars = part.boolean("handle_chinese_chars", true);
    bert.lowercase = part.boolean("lowercase", true);
    bert.strip_accents = part.boolean("strip_accents", bert.lowercase);
    return bert;
  }
  refuse(part, "normalizer", type);
}

tokenize::SplitBehavior read_behavior(const JsonSource& part) {
  using tokenize::SplitBehavior;
  if (!part.has("behavior")) return SplitBehavior::isolated;
  const std::string name = part.string("behavior");
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  refuse(part, "pre_tokenizer", part.string("type") + " with behavior " + name);
}

// A pattern that covers all text gives the same words whether its matches or what lies between them
// (nothing) is asked for, unless neighbours are joined or matches taken out.
bool gives_each_match(tokenize::SplitBehavior behavior, bool invert) {
  using tokenize::SplitBehavior;
  return behavior != SplitBehavior::contiguous && (behavior != SplitBehavior::removed || invert);
}

tokenize::PreTokenizerStep read_split(const JsonSource& split) {
  const tokenize::SplitBehavior behavior = read_behavior(split);
  const bool invert = split.boolean("invert", false);
  const JsonSource spelled = split.object("pattern");
  if (spelled.has("Regex") && gives_each_match(behavior, invert)) {
    const auto known = tokenize::pattern_of_regex(spelled.string("Regex"));
    if (known) return tokenize::PatternSplit{*known};
  }
  const Pattern pattern = read_pattern(split, "pre_tokenizer");
  if (pattern.regex) return tokenize::RegexSplit{pattern.regex, behavior, invert};
  return tokenize::StringSplit{pattern.text, behavior, invert};
}

std::string read_character(const JsonSource& part, std::string_view stage, const char* key) {
  const std::string text = part.string(key);
  if (text.empty() || characters::read_utf8(text.data()).length != text.size())
    refuse(part, stage, part.string("type") + " whose " + key + " is not one character");
  return text;
}

// `add_prefix_space` is what older files have in place of `prepend_scheme`.
tokenize::Metaspace::Scheme read_scheme(const JsonSource& part, std::string_view stage) {
  using Scheme = tokenize::Metaspace::Scheme;
  const std::string name =
      part.has("prepend_scheme") ? part.string("prepend_scheme") : std::string("always");
  if (!part.boolean("add_prefix_space", true)) {
    if (part.has("prepend_scheme") && name != "never")
      refuse(part, stage, "Metaspace whose add_prefix_space and prepend_scheme differ");
    return Scheme::never;
  }
  if (name == "always") return Scheme::always;
  if (name == "first") return Scheme::first;
  if (name == "never") return Scheme::never;
  refuse(part, stage, "Metaspace with prepend_scheme " + name);
}

tokenize::PreTokenizerStep read_pre_tokenizer_step(const JsonSource& part) {
  const std::string type = part.string("type");
  if (type == "BertPreTokenizer") return tokenize::BertWords{};
  if (type == "Whitespace") return tokenize::WordRuns{};
  if (type == "WhitespaceSplit") return tokenize::SpaceSplit{};
  if (type == "Punctuation") return tokenize::PunctuationSplit{read_behavior(part)};
  if (type == "Digits") return tokenize::DigitSplit{part.boolean("individual_digits", false)};
  if (type == "CharDelimiterSplit")
    return tokenize::DelimiterSplit{read_character(part, "pre_tokenizer", "delimiter")};
  if (type == "Split") return read_split(part);
  if (type == "Metaspace")
    return tokenize::Metaspace{read_character(part, "pre_tokenizer", "replacement"),
                               read_scheme(part, "pre_tokenizer"), part.boolean("split", true)};
  if (type == "ByteLevel")
    return tokenize::ByteLevelSplit{part.boolean("add_prefix_space", true),
                                    part.boolean("use_regex", true), true};
  refuse(part, "pre_tokenizer", type);
}

DecoderStep read_decoder_step(const JsonSource& part) {
  const std::string type = part.string("type");
  if (type == "ByteLevel") return ByteLevelDecoder{.parted = part.boolean("parted", false)};
  if (type == "ByteFallback") return ByteFallbackDecoder{};
  if (type == "Fuse") return FuseDecoder{};
  if (type == "WordPiece")
    return WordPieceDecoder{part.string("prefix"), part.boolean("cleanup", true)};
  if (type == "BPEDecoder") {
    SuffixDecoder suffix{part.string("suffix")};
    if (suffix.suffix.empty()) refuse(part, "decoder", "BPEDecoder without a suffix");
    return suffix;
  }
  if (type == "Strip")
    return StripDecoder{read_character(part, "decoder", "content"), part.whole("start", 0),
                        part.whole("stop", 0)};
  if (type == "Replace") {
    const Pattern pattern = read_pattern(part, "decoder");
    if (pattern.regex) return ReplaceMatchesDecoder{pattern.regex, part.string("content")};
    return ReplaceDecoder{pattern.text, part.string("content")};
  }
  if (type == "Metaspace")
    return MetaspaceDecoder{read_character(part, "decoder", "replacement"),
                            read_scheme(part, "decoder") != tokenize::Metaspace::Scheme::never};
  refuse(part, "decoder", type);
}

}  // namespace

std::vector<JsonSource> components(const JsonSource& root, const char* stage, const char* list) {
  std::vector<JsonSource> found;
  if (root.has(stage)) append_components(root.object(stage), stage, list, found);
  return found;
}

void read_normalizer(const JsonSource& root, TokenizerData& data) {
  std::vector<tokenize::NormalizerStep> steps;
  if (root.has("normalizer") && root.object("normalizer").has("sentencepiece")) {
    steps.emplace_back(read_sentencepiece_normalizer(root, data));
    data.normalizer = tokenize::Normalizer(std::move(steps));
    return;
  }
  for (const JsonSource& part : components(root, "normalizer", "normalizers"))
    steps.push_back(read_normalizer_step(part));
  data.normalizer = tokenize::Normalizer(std::move(steps));
}

// With ByteLevel last, words stay bytes: a BPE model begins from them.
void read_pre_tokenizer(const JsonSource& root, TokenizerData& data) {
  std::vector<tokenize::PreTokenizerStep> steps;
  for (const JsonSource& part : components(root, "pre_tokenizer", "pretokenizers"))
    steps.push_back(read_pre_tokenizer_step(part));
  if (data.kind == ModelKind::byte_bpe) {
    auto* const bytes =
        steps.empty() ? nullptr : std::get_if<tokenize::ByteLevelSplit>(&steps.back());
    if (bytes == nullptr || data.byte_fallback) {
      data.kind = ModelKind::character_bpe;
    } else {
      bytes->map_bytes = false;
    }
  }
  data.pre_tokenizer = tokenize::PreTokenizer(std::move(steps));
}

void read_decoder(const JsonSource& root, TokenizerData& data) {
  std::vector<DecoderStep> steps;
  if (root.has("decoder") && root.object("decoder").has("sentencepiece")) {
    steps.emplace_back(read_sentencepiece_decoder(root.object("decoder").object("sentencepiece")));
    data.decoder = Decoder(std::move(steps));
    return;
  }
  for (const JsonSource& part : components(root, "decoder", "decoders"))
    steps.push_back(read_decoder_step(part));
  if (!root.has("decoder")) steps.emplace_back(SpaceDecoder{});
  data.decoder = Decoder(std::move(steps));
}

}  // namespace megalith::text
