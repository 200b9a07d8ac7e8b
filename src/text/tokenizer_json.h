// SPDX-License-Identifier: Apache-2.0
// tokenizer.json, the file format of Hugging Face `tokenizers` (version "1.0"), read and written.
// The reader trusts nothing: size, depth, repeated keys, ids and references are checked, and a
// component that is not understood is an error that names it, never a silent difference.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/tokenizer_data.h"

namespace megalith::text {

inline constexpr int64_t kMaxTokenizerBytes = int64_t{256} << 20;

TokenizerData read_tokenizer_json(std::string_view json, std::string_view where);
std::string write_tokenizer_json(const TokenizerData& data);

}  // namespace megalith::text
