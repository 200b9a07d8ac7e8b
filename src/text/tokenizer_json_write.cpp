// SPDX-License-Identifier: Apache-2.0
// One line per token and merge, so that two tokenizers can be compared with diff. Merges are
// written in the older encoding ("a b"), which every version of the format reads, unless a token
// has a space. Keys that the format lacks ("merge_ranks", "in_text", "sentencepiece", "parted") say
// what other kinds of files mean beyond it; Hugging Face passes over them.
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include <fmt/ranges.h>

#include "text/tokenizer_json.h"

namespace megalith::text {
namespace {

std::string json_string(std::string_view text) { return nlohmann::json(text).dump(); }

void write_added_tokens(const TokenizerData& data, std::string& out) {
  out += "  \"added_tokens\": [";
  const char* separator = "\n";
  for (const AddedToken& token : data.added_tokens) {
    fmt::format_to(std::back_inserter(out),
                   "{}    {{\"id\": {}, \"content\": {}, \"single_word\": {}, \"lstrip\": {}, "
                   "\"rstrip\": {}, \"normalized\": {}, \"special\": {}{}}}",
                   separator, token.id, json_string(token.content), token.single_word, token.lstrip,
                   token.rstrip, token.normalized, token.special,
                   token.in_text ? "" : ", \"in_text\": false");
    separator = ",\n";
  }
  out += data.added_tokens.empty() ? "],\n" : "\n  ],\n";
}

void write_vocabulary(const TokenizerData& data, std::string& out) {
  out += "    \"vocab\": {";
  const char* separator = "\n";
  for (const int32_t id : data.model_ids) {
    fmt::format_to(std::back_inserter(out), "{}      {}: {}", separator,
                   json_string(data.vocabulary.token(id)), id);
    separator = ",\n";
  }
  out += is_bpe(data.kind) ? "\n    },\n" : "\n    }\n";
}

void write_merges(const TokenizerData& data, std::string& out) {
  const auto has_space = [&](int32_t id) {
    return data.vocabulary.token(id).find(' ') != std::string_view::npos;
  };
  const bool as_pairs = std::any_of(data.merges.begin(), data.merges.end(), [&](const auto& merge) {
    return has_space(merge.first) || has_space(merge.second);
  });
  out += "    \"merges\": [";
  const char* separator = "\n";
  for (const auto& [left_id, right_id] : data.merges) {
    const std::string_view left = data.vocabulary.token(left_id);
    const std::string_view right = data.vocabulary.token(right_id);
    out += separator;
    out += "      ";
    if (as_pairs) {
      fmt::format_to(std::back_inserter(out), "[{}, {}]", json_string(left), json_string(right));
    } else {
      out += json_string(fmt::format("{} {}", left, right));
    }
    separator = ",\n";
  }
  out += data.merges.empty() ? "]\n" : "\n    ]\n";
}

void write_bpe_options(const TokenizerData& data, std::string& out) {
  out += "    \"type\": \"BPE\",\n    \"dropout\": null,\n";
  fmt::format_to(std::back_inserter(out), "    \"unk_token\": {},\n",
                 data.unk_token ? json_string(*data.unk_token) : "null");
  out += "    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n";
  fmt::format_to(std::back_inserter(out),
                 "    \"fuse_unk\": {},\n    \"byte_fallback\": {},\n    \"ignore_merges\": {},\n",
                 data.fuse_unk, data.byte_fallback, data.ignore_merges);
  if (!data.merge_ranks.empty())
    fmt::format_to(std::back_inserter(out), "    \"merge_ranks\": [{}],\n",
                   fmt::join(data.merge_ranks, ","));
}

void write_wordpiece_options(const TokenizerData& data, std::string& out) {
  const tokenize::WordPieceOptions& options = data.wordpiece.options();
  fmt::format_to(std::back_inserter(out),
                 "    \"type\": \"WordPiece\",\n    \"unk_token\": {},\n"
                 "    \"continuing_subword_prefix\": {},\n    \"max_input_chars_per_word\": {},\n",
                 json_string(options.unknown), json_string(options.continuing_prefix),
                 options.most_characters);
}

void write_unigram(const TokenizerData& data, std::string& out) {
  const auto unknown = data.unk_token ? data.vocabulary.find(*data.unk_token) : std::nullopt;
  fmt::format_to(std::back_inserter(out),
                 "    \"type\": \"Unigram\",\n    \"unk_id\": {},\n    \"byte_fallback\": {},\n",
                 unknown ? std::to_string(*unknown) : "null", data.byte_fallback);
  if (data.kind == ModelKind::sentencepiece_unigram)
    fmt::format_to(std::back_inserter(out), "    \"sentencepiece\": {{\"unused\": [{}]}},\n",
                   fmt::join(data.unused_ids, ","));
  out += "    \"vocab\": [";
  const char* separator = "\n";
  for (const int32_t id : data.model_ids) {
    fmt::format_to(std::back_inserter(out), "{}      [{}, {}]", separator,
                   json_string(data.vocabulary.token(id)),
                   nlohmann::json(data.scores[static_cast<size_t>(id)]).dump());
    separator = ",\n";
  }
  out += data.model_ids.empty() ? "]\n" : "\n    ]\n";
}

}  // namespace

std::string write_tokenizer_json(const TokenizerData& data) {
  std::string out = "{\n  \"version\": \"1.0\",\n";
  const auto stage = [&out](const char* key, const std::string& json) {
    fmt::format_to(std::back_inserter(out), "  \"{}\": {},\n", key, json);
  };
  stage("truncation", data.truncation_json);
  stage("padding", data.padding_json);
  write_added_tokens(data, out);
  stage("normalizer", data.normalizer_json);
  stage("pre_tokenizer", data.pre_tokenizer_json);
  stage("post_processor", data.post_processor_json);
  stage("decoder", data.decoder_json);
  out += "  \"model\": {\n";
  if (is_bpe(data.kind)) {
    write_bpe_options(data, out);
    write_vocabulary(data, out);
    write_merges(data, out);
  } else if (is_unigram(data.kind)) {
    write_unigram(data, out);
  } else {
    if (data.kind == ModelKind::wordpiece) {
      write_wordpiece_options(data, out);
    } else {
      fmt::format_to(std::back_inserter(out),
                     "    \"type\": \"WordLevel\",\n    \"unk_token\": {},\n",
                     json_string(data.unk_token.value_or("")));
    }
    write_vocabulary(data, out);
  }
  out += "  }\n}\n";
  return out;
}

}  // namespace megalith::text
