// SPDX-License-Identifier: Apache-2.0
// The post-processor.
#include "base/error.h"
#include "text/tokenizer_json_stages.h"

namespace megalith::text {
namespace {

using Part = TemplatePiece::Part;

int32_t read_token_id(JsonElement element, const JsonSource& source, const TokenizerData& data) {
  int64_t id = -1;
  if (element.get(id) != simdjson::SUCCESS || !data.vocabulary.has(id))
    throw UserError("{}: the post_processor names an id that no token has", source.where());
  return static_cast<int32_t>(id);
}

int32_t read_type_id(const JsonSource& piece) {
  const uint64_t type = piece.whole("type_id", 0);
  if (type > 0x7FFFFFFF) refuse(piece, "post_processor", "template with a large type_id");
  return static_cast<int32_t>(type);
}

// One form of a TemplateProcessing: tokens, and each text once.
std::vector<TemplatePiece> read_form(const JsonSource& part, const char* form, int texts,
                                     const TokenizerData& data) {
  std::vector<TemplatePiece> pieces;
  int found[2] = {0, 0};
  for (const JsonSource& item : part.items(form)) {
    if (item.has("Sequence")) {
      const JsonSource text = item.object("Sequence");
      const std::string name = text.string("id");
      if (name != "A" && name != "B") refuse(part, "post_processor", "template of text " + name);
      const bool first = name == "A";
      ++found[first ? 0 : 1];
      pieces.push_back({first ? Part::text_a : Part::text_b, read_type_id(text), -1});
      continue;
    }
    const JsonSource special = item.object("SpecialToken");
    const JsonSource token = part.object("special_tokens").object(special.string("id"));
    const JsonElement ids = token.member("ids");
    if (!ids.is_array()) refuse(part, "post_processor", "template without ids");
    for (const JsonElement id : simdjson::dom::array(ids))
      pieces.push_back({Part::token, read_type_id(special), read_token_id(id, part, data)});
  }
  if (found[0] != 1 || found[1] != texts - 1)
    refuse(part, "post_processor",
           std::string("template whose form \"") + form + "\" has not each text once");
  return pieces;
}

// A file that has no use for pairs may leave their form empty; they are then joined as they are.
void read_template(const JsonSource& part, TokenizerData& data) {
  data.post_processor.single = read_form(part, "single", 1, data);
  if (part.count("pair") > 0) data.post_processor.pair = read_form(part, "pair", 2, data);
}

int32_t read_named_id(const JsonSource& part, const char* key, const TokenizerData& data) {
  const JsonElement pair = part.member(key);
  if (!pair.is_array() || simdjson::dom::array(pair).size() != 2)
    refuse(part, "post_processor", "sep or cls that is not a pair");
  return read_token_id(simdjson::dom::array(pair).at(1).value(), part, data);
}

// [CLS] A [SEP] and [CLS] A [SEP] B [SEP], with types 0 and 1.
void read_bert(const JsonSource& part, TokenizerData& data) {
  const TemplatePiece cls{Part::token, 0, read_named_id(part, "cls", data)};
  const TemplatePiece sep{Part::token, 0, read_named_id(part, "sep", data)};
  const TemplatePiece last{Part::token, 1, sep.id};
  data.post_processor.single = {cls, {Part::text_a, 0, -1}, sep};
  data.post_processor.pair = {cls, {Part::text_a, 0, -1}, sep, {Part::text_b, 1, -1}, last};
}

// <s> A </s> and <s> A </s></s> B </s>, all of type 0. It also moves offsets, which are not kept.
void read_roberta(const JsonSource& part, TokenizerData& data) {
  const TemplatePiece cls{Part::token, 0, read_named_id(part, "cls", data)};
  const TemplatePiece sep{Part::token, 0, read_named_id(part, "sep", data)};
  data.post_processor.single = {cls, {Part::text_a, 0, -1}, sep};
  data.post_processor.pair = {cls, {Part::text_a, 0, -1}, sep, sep, {Part::text_b, 0, -1}, sep};
}

}  // namespace

void read_post_processor(const JsonSource& root, TokenizerData& data) {
  int adding = 0;
  for (const JsonSource& part : components(root, "post_processor", "processors")) {
    const std::string type = part.string("type");
    if (type == "ByteLevel") continue;  // moves offsets, never ids
    if (++adding > 1) refuse(part, "post_processor", "Sequence that adds tokens twice");
    if (type == "TemplateProcessing") {
      read_template(part, data);
    } else if (type == "BertProcessing") {
      read_bert(part, data);
    } else if (type == "RobertaProcessing") {
      read_roberta(part, data);
    } else {
      refuse(part, "post_processor", type);
    }
  }
}

}  // namespace megalith::text
