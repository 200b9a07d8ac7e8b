// SPDX-License-Identifier: Apache-2.0
// The byte alphabet of GPT-2's tokenizer files: each of the 256 bytes is written as one printable
// character, so that any token is a readable JSON string. Bytes 33..126, 161..172 and 174..255
// stand for themselves; the other 68, in ascending order, are written as U+0100 + n (a space is
// U+0120).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace megalith::tokenize {

/// The character that stands for each byte.
const std::array<uint16_t, 256>& byte_characters();

/// All 256 bytes in ascending order of their characters: the order of ids in a trained vocabulary.
std::array<uint8_t, 256> bytes_by_character();

/// Bytes as characters.
std::string bytes_to_token(std::string_view bytes);

/// Characters back to bytes; nothing if a character stands for no byte. `token` must be UTF-8.
std::optional<std::string> token_to_bytes(std::string_view token);

}  // namespace megalith::tokenize
