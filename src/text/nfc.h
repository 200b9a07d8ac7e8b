// SPDX-License-Identifier: Apache-2.0
// Unicode normalisation form C by ICU, the one normaliser that files of byte-level tokenizers name
// (Qwen2). Stable for every character of ICU's Unicode version (15.0 in Debian 12); the characters
// composed since then (Tulu-Tigalari, Kirat Rai, Gurung Khema, of 16.0) stay as they are.
#pragma once

#include <string>
#include <string_view>

namespace megalith::text {

/// `text` must be UTF-8.
std::string to_nfc(std::string_view text);

}  // namespace megalith::text
