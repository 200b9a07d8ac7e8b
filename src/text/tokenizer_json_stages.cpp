// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_json_stages.h"

#include "base/error.h"

namespace megalith::text {

bool JsonSource::has(std::string_view key) const {
  JsonElement found;
  return element_[key].get(found) == simdjson::SUCCESS && !found.is_null();
}

JsonElement JsonSource::member(std::string_view key) const {
  JsonElement found;
  if (element_[key].get(found) != simdjson::SUCCESS)
    throw UserError("{}: the key \"{}\" is missing", where_, key);
  return found;
}

std::string JsonSource::string(std::string_view key) const {
  std::string_view value;
  if (member(key).get(value) != simdjson::SUCCESS)
    throw UserError("{}: \"{}\" is not a string", where_, key);
  return std::string(value);
}

bool JsonSource::boolean(std::string_view key, bool absent) const {
  if (!has(key)) return absent;
  bool value = false;
  if (member(key).get(value) != simdjson::SUCCESS)
    throw UserError("{}: \"{}\" is not true or false", where_, key);
  return value;
}

JsonSource JsonSource::object(std::string_view key) const {
  const JsonElement found = member(key);
  if (!found.is_object()) throw UserError("{}: \"{}\" is not an object", where_, key);
  return JsonSource(found, where_);
}

std::vector<JsonSource> JsonSource::items(std::string_view key) const {
  std::vector<JsonSource> found;
  if (!has(key)) return found;
  const JsonElement list = member(key);
  if (!list.is_array()) throw UserError("{}: \"{}\" is not a list", where_, key);
  for (const JsonElement item : simdjson::dom::array(list)) {
    if (!item.is_object()) throw UserError("{}: \"{}\" holds what is not an object", where_, key);
    found.emplace_back(item, where_);
  }
  return found;
}

// Counted by walking: the parser's own size() saturates at 2^24 - 1.
size_t JsonSource::count(std::string_view key) const {
  size_t number = 0;
  if (!has(key)) return number;
  const JsonElement found = member(key);
  if (found.is_object())
    for ([[maybe_unused]] const auto field : simdjson::dom::object(found)) ++number;
  if (found.is_array())
    for ([[maybe_unused]] const JsonElement item : simdjson::dom::array(found)) ++number;
  return number;
}

std::string JsonSource::json(std::string_view key) const {
  return has(key) ? simdjson::minify(member(key)) : "null";
}

namespace {

[[noreturn]] void refuse(const JsonSource& source, std::string_view stage, std::string_view what) {
  throw UserError("{}: the {} \"{}\" is not supported here", source.where(), stage, what);
}

// The components of a stage in order: itself, or those of a Sequence.
std::vector<JsonSource> components(const JsonSource& root, const char* stage, const char* list) {
  if (!root.has(stage)) return {};
  const JsonSource component = root.object(stage);
  if (component.string("type") != "Sequence") return {component};
  std::vector<JsonSource> parts = component.items(list);
  for (const JsonSource& part : parts)
    if (part.string("type") == "Sequence") refuse(part, stage, "Sequence inside a Sequence");
  return parts;
}

void require_replace(const JsonSource& part, std::string_view stage, std::string_view from,
                     std::string_view to) {
  const JsonSource pattern = part.object("pattern");
  if (!pattern.has("String") || pattern.string("String") != from || part.string("content") != to)
    refuse(part, stage, "Replace of what is not a space and U+2581");
}

void read_normalizer(const JsonSource& root, TokenizerData& data) {
  for (const JsonSource& part : components(root, "normalizer", "normalizers")) {
    const std::string type = part.string("type");
    if (type == "NFC") {
      data.normalizer.nfc = true;
    } else if (type == "Prepend" && data.byte_fallback && !data.normalizer.prepend_mark) {
      if (part.string("prepend") != kSpaceMark)
        refuse(part, "normalizer", "Prepend of what is not U+2581");
      data.normalizer.prepend_mark = true;
    } else if (type == "Replace" && data.byte_fallback) {
      require_replace(part, "normalizer", " ", kSpaceMark);
      data.normalizer.mark_spaces = true;
    } else {
      refuse(part, "normalizer", type);
    }
  }
}

SplitPattern read_split(const JsonSource& split) {
  const JsonSource pattern = split.object("pattern");
  if (split.string("behavior") != "Isolated" || split.boolean("invert", false))
    refuse(split, "pre_tokenizer", "Split that is not Isolated, or inverted");
  if (!pattern.has("Regex")) refuse(split, "pre_tokenizer", "Split by a plain string");
  const std::string regex = pattern.string("Regex");
  const std::optional<SplitPattern> found = pattern_of_regex(regex);
  if (!found)
    throw UserError("{}: the split pattern is none of GPT-2's, Llama-3's and Qwen2's: {}",
                    split.where(), regex);
  return *found;
}

// ByteLevel, or Split and then ByteLevel without its own pattern; none with byte_fallback.
void read_pre_tokenizer(const JsonSource& root, TokenizerData& data) {
  const std::vector<JsonSource> parts = components(root, "pre_tokenizer", "pretokenizers");
  if (data.byte_fallback) {
    if (!parts.empty())
      refuse(parts[0], "pre_tokenizer", parts[0].string("type") + " with byte_fallback");
    return;
  }
  bool has_split = false;
  bool has_bytes = false;
  for (const JsonSource& part : parts) {
    const std::string type = part.string("type");
    if (type == "Split" && !has_split && !has_bytes) {
      data.pattern = read_split(part);
      has_split = true;
    } else if (type == "ByteLevel" && !has_bytes) {
      const bool use_regex = part.boolean("use_regex", true);
      data.add_prefix_space = part.boolean("add_prefix_space", true);
      if (has_split && use_regex)
        refuse(part, "pre_tokenizer", "ByteLevel with use_regex after Split");
      if (has_split && data.add_prefix_space)
        refuse(part, "pre_tokenizer", "ByteLevel with add_prefix_space after Split");
      if (!has_split) data.pattern = use_regex ? SplitPattern::gpt2 : SplitPattern::none;
      has_bytes = true;
    } else {
      refuse(part, "pre_tokenizer", type);
    }
  }
  if (!has_bytes)
    throw UserError("{}: no ByteLevel pre_tokenizer, which BPE without byte_fallback needs",
                    root.where());
}

using Ids = std::vector<int32_t>;

void append_id(JsonElement element, const JsonSource& source, const TokenizerData& data, Ids& ids) {
  int64_t id = -1;
  if (element.get(id) != simdjson::SUCCESS || !data.vocabulary.has(id))
    throw UserError("{}: the post_processor names an id that no token has", source.where());
  ids.push_back(static_cast<int32_t>(id));
}

// One TemplateProcessing: what stands before and behind the text.
void read_template(const JsonSource& part, TokenizerData& data) {
  int texts = 0;
  for (const JsonSource& piece : part.items("single")) {
    if (piece.has("Sequence")) {
      if (piece.object("Sequence").string("id") != "A")
        refuse(part, "post_processor", "template whose single form is not of text A");
      ++texts;
      continue;
    }
    const std::string name = piece.object("SpecialToken").string("id");
    const JsonSource token = part.object("special_tokens").object(name);
    const JsonElement ids = token.member("ids");
    if (!ids.is_array()) refuse(part, "post_processor", "template without ids");
    for (const JsonElement id : simdjson::dom::array(ids))
      append_id(id, part, data, texts == 0 ? data.prefix_ids : data.suffix_ids);
  }
  if (texts != 1) refuse(part, "post_processor", "template without exactly one text");
}

// [CLS] text [SEP] as BertProcessing and RobertaProcessing spell it: pairs of token and id.
void read_classic(const JsonSource& part, TokenizerData& data) {
  const auto add = [&](const char* key, Ids& ids) {
    const JsonElement pair = part.member(key);
    if (!pair.is_array() || simdjson::dom::array(pair).size() != 2)
      refuse(part, "post_processor", "sep or cls that is not a pair");
    append_id(simdjson::dom::array(pair).at(1).value(), part, data, ids);
  };
  add("cls", data.prefix_ids);
  add("sep", data.suffix_ids);
}

void read_post_processor(const JsonSource& root, TokenizerData& data) {
  int adding = 0;
  for (const JsonSource& part : components(root, "post_processor", "processors")) {
    const std::string type = part.string("type");
    if (type == "ByteLevel") continue;  // moves offsets, never ids
    if (++adding > 1) refuse(part, "post_processor", "Sequence that adds tokens twice");
    if (type == "TemplateProcessing") {
      read_template(part, data);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      read_classic(part, data);
    } else {
      refuse(part, "post_processor", type);
    }
  }
}

// Replace, ByteFallback, Fuse, and Strip of one space at the start or none.
void read_fallback_decoder(const JsonSource& root, TokenizerData& data) {
  const std::vector<JsonSource> parts = components(root, "decoder", "decoders");
  constexpr std::string_view kTypes[] = {"Replace", "ByteFallback", "Fuse", "Strip"};
  for (size_t i = 0; i < parts.size(); ++i)
    if (i >= std::size(kTypes) || parts[i].string("type") != kTypes[i])
      refuse(parts[i], "decoder", parts[i].string("type") + " at this place");
  if (parts.size() < 3)
    throw UserError("{}: the decoder must be Replace, ByteFallback, Fuse and perhaps Strip",
                    root.where());
  require_replace(parts[0], "decoder", kSpaceMark, " ");
  if (parts.size() < 4) return;
  if (parts[3].string("content") != " " || parts[3].json("start") != "1" ||
      parts[3].json("stop") != "0")
    refuse(parts[3], "decoder", "Strip of what is not one space at the start");
  data.strip_first_space = true;
}

void read_decoder(const JsonSource& root, TokenizerData& data) {
  if (data.byte_fallback) return read_fallback_decoder(root, data);
  const std::vector<JsonSource> parts = components(root, "decoder", "decoders");
  for (const JsonSource& part : parts)
    if (part.string("type") != "ByteLevel") refuse(part, "decoder", part.string("type"));
  if (parts.size() != 1) throw UserError("{}: the decoder must be ByteLevel, once", root.where());
}

}  // namespace

void read_stages(const JsonSource& root, TokenizerData& data) {
  read_normalizer(root, data);
  read_pre_tokenizer(root, data);
  read_post_processor(root, data);
  read_decoder(root, data);
  data.truncation_json = root.json("truncation");
  data.padding_json = root.json("padding");
  data.normalizer_json = root.json("normalizer");
  data.pre_tokenizer_json = root.json("pre_tokenizer");
  data.post_processor_json = root.json("post_processor");
  data.decoder_json = root.json("decoder");
}

}  // namespace megalith::text
