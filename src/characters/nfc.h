// SPDX-License-Identifier: Apache-2.0
// Unicode normalisation form C, by ICU: the only normaliser that files of byte-level tokenizers
// name (Qwen2). Stable for every character of ICU's Unicode version (15.0 in Debian 12); characters
// added since then (Tulu-Tigalari, Kirat Rai and Gurung Khema, of 16.0) are left unchanged.
#pragma once

#include <string>
#include <string_view>

namespace megalith::characters {

/// `text` must be UTF-8.
std::string to_nfc(std::string_view text);

}  // namespace megalith::characters
