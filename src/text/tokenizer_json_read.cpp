// SPDX-License-Identifier: Apache-2.0
// The outer file: size, syntax, repeated keys, added tokens, vocabulary and merges.
#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "base/integer.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_json_stages.h"

namespace megalith::text {
namespace {

constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxAddedTokenBytes = 4096;  // bounds the cost of matching at one place

void require_unique_keys(JsonElement element, std::string_view where, std::string_view path) {
  if (element.is_array()) {
    // Merges are hundreds of thousands of plain strings or pairs of them.
    for (const JsonElement item : simdjson::dom::array(element))
      if (item.is_array() || item.is_object()) require_unique_keys(item, where, path);
  }
  if (!element.is_object() || path == ".model.vocab") return;
  std::unordered_set<std::string_view> seen;
  for (const auto field : simdjson::dom::object(element)) {
    if (!seen.insert(field.key).second)
      throw UserError("{}: the key \"{}\" stands twice in {}", where, field.key,
                      path.empty() ? "the file" : path.substr(1));
    require_unique_keys(field.value, where, fmt::format("{}.{}", path, field.key));
  }
}

int32_t read_id(JsonElement element, size_t limit, std::string_view token, std::string_view where) {
  int64_t id = -1;
  if (element.get(id) != simdjson::SUCCESS || id < 0)
    throw UserError("{}: the id of the token \"{}\" is not a whole number >= 0", where, token);
  if (static_cast<uint64_t>(id) >= limit)
    throw UserError("{}: the id {} of the token \"{}\" is far beyond the number of tokens", where,
                    id, token);
  return static_cast<int32_t>(id);
}

// They join the vocabulary later, when the model has its own tokens.
void read_added_tokens(JsonSource root, size_t id_limit, TokenizerData& data) {
  for (const JsonSource item : root.items("added_tokens")) {
    AddedToken token;
    token.content = item.string("content");
    token.id = read_id(item.member("id"), id_limit, token.content, item.where());
    token.single_word = item.boolean("single_word", false);
    token.lstrip = item.boolean("lstrip", false);
    token.rstrip = item.boolean("rstrip", false);
    token.normalized = item.boolean("normalized", false);
    token.special = item.boolean("special", false);
    token.in_text = item.boolean("in_text", true);
    if (token.content.size() > kMaxAddedTokenBytes)
      throw UserError("{}: an added token of {} bytes; the most is {}", item.where(),
                      token.content.size(), kMaxAddedTokenBytes);
    data.added_tokens.push_back(std::move(token));
  }
}

void read_vocabulary(JsonSource model, size_t id_limit, TokenizerData& data) {
  const JsonElement vocab = model.member("vocab");
  if (!vocab.is_object()) throw UserError("{}: model.vocab is not an object", model.where());
  for (const auto field : simdjson::dom::object(vocab)) {
    const int32_t id = read_id(field.value, id_limit, field.key, model.where());
    data.vocabulary.add(id, field.key, model.where());
    data.model_ids.push_back(id);
  }
  std::sort(data.model_ids.begin(), data.model_ids.end());
}

// A list of pieces with their scores, whose places are their ids.
void read_unigram(JsonSource model, TokenizerData& data) {
  const JsonElement vocab = model.member("vocab");
  if (!vocab.is_array()) throw UserError("{}: model.vocab is not a list", model.where());
  for (const JsonElement item : simdjson::dom::array(vocab)) {
    const int32_t id = narrow<int32_t>(data.scores.size());
    std::string_view piece;
    double score = 0;
    const bool good = item.is_array() && simdjson::dom::array(item).size() == 2 &&
                      simdjson::dom::array(item).at(0).get(piece) == simdjson::SUCCESS &&
                      simdjson::dom::array(item).at(1).get(score) == simdjson::SUCCESS;
    if (!good) throw UserError("{}: model.vocab[{}] is not [piece, score]", model.where(), id);
    data.vocabulary.add(id, piece, model.where());
    data.model_ids.push_back(id);
    data.scores.push_back(score);
  }
  const auto require_piece = [&](uint64_t id, const char* key) {
    if (id >= data.scores.size())
      throw UserError("{}: model.{} is {}, and there are {} pieces", model.where(), key, id,
                      data.scores.size());
    return static_cast<int32_t>(id);
  };
  if (model.has("unk_id")) {
    const int32_t unknown = require_piece(model.whole("unk_id", 0), "unk_id");
    data.unk_token = std::string(data.vocabulary.token(unknown));
  }
  if (data.kind != ModelKind::sentencepiece_unigram) return;
  for (const uint64_t id : model.object("sentencepiece").wholes("unused"))
    data.unused_ids.push_back(require_piece(id, "sentencepiece.unused"));
}

// Both encodings: "a b" and ["a", "b"].
void read_merges(JsonSource model, TokenizerData& data) {
  const JsonElement merges = model.member("merges");
  if (!merges.is_array()) throw UserError("{}: model.merges is not a list", model.where());
  size_t index = 0;
  for (const JsonElement item : simdjson::dom::array(merges)) {
    std::string_view left, right, line;
    bool good = false;
    if (item.get(line) == simdjson::SUCCESS) {
      if (line.starts_with("#version")) continue;
      const size_t space = line.find(' ');
      good = space != std::string_view::npos && line.find(' ', space + 1) == std::string_view::npos;
      left = line.substr(0, space);
      right = good ? line.substr(space + 1) : std::string_view();
    } else if (item.is_array()) {
      const simdjson::dom::array pair(item);
      good = pair.size() == 2 && pair.at(0).get(left) == simdjson::SUCCESS &&
             pair.at(1).get(right) == simdjson::SUCCESS;
    }
    if (!good)
      throw UserError("{}: model.merges[{}] is neither \"a b\" nor [\"a\", \"b\"]", model.where(),
                      index);
    const std::optional<int32_t> left_id = data.vocabulary.find(left);
    const std::optional<int32_t> right_id = data.vocabulary.find(right);
    if (!left_id || !right_id)
      throw UserError("{}: model.merges[{}] names \"{}\", which is not in model.vocab",
                      model.where(), index, left_id ? right : left);
    data.merges.emplace_back(*left_id, *right_id);
    ++index;
  }
  for (const uint64_t rank : model.wholes("merge_ranks")) {
    if (rank >= data.merges.size())
      throw UserError("{}: model.merge_ranks holds {}, and there are {} merges", model.where(),
                      rank, data.merges.size());
    data.merge_ranks.push_back(static_cast<uint32_t>(rank));
  }
  if (!data.merge_ranks.empty() && data.merge_ranks.size() != data.merges.size())
    throw UserError("{}: {} merge_ranks for {} merges", model.where(), data.merge_ranks.size(),
                    data.merges.size());
}

}  // namespace

JsonElement parse_tokenizer_json(std::string_view json, std::string_view where,
                                 simdjson::dom::parser& parser) {
  if (static_cast<int64_t>(json.size()) > kMaxTokenizerBytes)
    throw UserError("{}: {} bytes are too many for a tokenizer (at most {})", where, json.size(),
                    kMaxTokenizerBytes);
  JsonElement document;
  simdjson::error_code error = parser.allocate(std::max<size_t>(json.size(), 1), kMaxDepth);
  if (!error) error = parser.parse(json.data(), json.size()).get(document);
  if (error) throw UserError("{}: not a tokenizer.json: {}", where, simdjson::error_message(error));
  if (!document.is_object()) throw UserError("{}: not a tokenizer.json: not a JSON object", where);
  require_unique_keys(document, where, "");
  return document;
}

void read_stages(const JsonSource& root, TokenizerData& data) {
  read_model_options(root.object("model"), data);
  read_normalizer(root, data);
  read_pre_tokenizer(root, data);
  read_decoder(root, data);
  const bool has_bytes = data.kind == ModelKind::byte_bpe || data.decoder.only_joins_bytes();
  data.vocabulary = Vocabulary(has_bytes ? TokenSpelling::byte_alphabet : TokenSpelling::text);
}

void complete_tokenizer(const JsonSource& root, TokenizerData& data) {
  complete_model(data, root.where());
  for (const AddedToken& token : data.added_tokens)
    if (data.vocabulary.find(token.content) != token.id)
      data.vocabulary.add(token.id, token.content, root.where());
  read_post_processor(root, data);
  complete_added_tokens(data);
  data.truncation_json = root.json("truncation");
  data.padding_json = root.json("padding");
  data.normalizer_json = root.json("normalizer");
  data.pre_tokenizer_json = root.json("pre_tokenizer");
  data.post_processor_json = root.json("post_processor");
  data.decoder_json = root.json("decoder");
}

TokenizerData read_tokenizer_json(std::string_view json, std::string_view where) {
  simdjson::dom::parser parser;
  const JsonSource root(parse_tokenizer_json(json, where, parser), where);
  if (root.has("version") && root.string("version") != "1.0")
    throw UserError("{}: version \"{}\" is not supported; \"1.0\" is", where,
                    root.string("version"));
  const JsonSource model = root.object("model");
  TokenizerData data;
  // Ids may leave gaps (padded vocabularies), but not such that a small file asks for gigabytes.
  const size_t entries = model.count("vocab") + root.count("added_tokens");
  const size_t id_limit = std::min<size_t>(entries * 4 + 65536, 0x7FFFFFFF);
  read_added_tokens(root, id_limit, data);
  read_stages(root, data);
  if (is_unigram(data.kind)) {
    read_unigram(model, data);
  } else {
    read_vocabulary(model, id_limit, data);
  }
  if (is_bpe(data.kind)) read_merges(model, data);
  complete_tokenizer(root, data);
  return data;
}

}  // namespace megalith::text
