// SPDX-License-Identifier: Apache-2.0
// Base64 (RFC 4648, section 4), in which files of tokenizers keep bytes.
#pragma once

#include <string>
#include <string_view>

namespace megalith::text {

/// The bytes; UserError, naming `where`, if `text` is not base64 with its padding.
std::string decode_base64(std::string_view text, std::string_view where);

/// With padding.
std::string encode_base64(std::string_view bytes);

}  // namespace megalith::text
