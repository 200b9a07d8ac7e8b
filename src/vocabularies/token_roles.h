// SPDX-License-Identifier: Apache-2.0
// The files beside a tokenizer.json and the keys that say the same in a GGUF file.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "text/tokenizer_data.h"

namespace megalith::vocabularies {

/// A role of special tokens: in tokenizer_config.json and as a key without tokenizer.ggml.
struct TokenRole {
  const char* name;
  std::string_view key;
};
inline constexpr TokenRole kTokenRoles[] = {
    {"bos_token", "bos_token_id"},     {"eos_token", "eos_token_id"},
    {"unk_token", "unknown_token_id"}, {"sep_token", "seperator_token_id"},
    {"pad_token", "padding_token_id"}, {"cls_token", "cls_token_id"},
    {"mask_token", "mask_token_id"}};

/// Ids by the key of their role.
using TokenRoles = std::map<std::string_view, int32_t>;

/// Of the added tokens, those to which tokenizer_config.json or else special_tokens_map.json gives
/// a role. UserError if one of the files is no JSON object.
TokenRoles token_roles(const std::map<std::string, std::string>& texts,
                       const text::TokenizerData& data);

}  // namespace megalith::vocabularies
