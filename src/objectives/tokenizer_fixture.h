// SPDX-License-Identifier: Apache-2.0
// Tests only: a byte-level tokenizer with the tokens that objectives ask for.
#pragma once

#include "text/tokenizer_fixture.h"

namespace megalith::objectives {

/// Bytes 0 to 255, "th", "the", " the" (258), `<|endoftext|>` (259), `[MASK]` (260), `<fim_prefix>`
/// (261), `<fim_middle>`, `<fim_suffix>`.
inline nlohmann::json objectives_json() {
  nlohmann::json json = text::small_tokenizer({{"t", "h"}, {"th", "e"}, {" ", "the"}});
  for (const char* content : {"[MASK]", "<fim_prefix>", "<fim_middle>", "<fim_suffix>"}) {
    nlohmann::json token = json["added_tokens"][0];
    token["id"] = 259 + json["added_tokens"].size();
    token["content"] = content;
    json["added_tokens"].push_back(token);
  }
  return json;
}
inline text::Tokenizer objectives_tokenizer() { return text::parse(objectives_json()); }
constexpr int32_t kEnd = 259, kMask = 260, kPrefix = 261, kMiddle = 262, kSuffix = 263;
constexpr int32_t kOrdinary = 259;  // ids below are ordinary
constexpr int64_t kVocabulary = 264;

/// "[SEP]" 0, "[MASK]" 1, "un" 2, "##aff" 3, "##able" 4, "the" 5, "," 6.
inline text::Tokenizer wordpiece_tokenizer() {
  nlohmann::json json = text::small_tokenizer({});
  nlohmann::json end = json["added_tokens"][0], mask = end;
  end["id"] = 0;
  end["content"] = "[SEP]";
  mask["id"] = 1;
  mask["content"] = "[MASK]";
  json["added_tokens"] = nlohmann::json::array({end, mask});
  json["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  json["post_processor"] = nullptr;
  json["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  json["model"] = {{"type", "WordPiece"},
                   {"unk_token", "[SEP]"},
                   {"continuing_subword_prefix", "##"},
                   {"max_input_chars_per_word", 100},
                   {"vocab",
                    {{"[SEP]", 0},
                     {"[MASK]", 1},
                     {"un", 2},
                     {"##aff", 3},
                     {"##able", 4},
                     {"the", 5},
                     {",", 6}}}};
  return text::parse(json);
}

}  // namespace megalith::objectives
