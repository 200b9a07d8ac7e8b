// SPDX-License-Identifier: Apache-2.0
// Tests only: a SentencePiece model made byte by byte.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace megalith::vocabularies {

/// Fields of a protobuf message, one after the other.
class Message {
 public:
  Message& varint(uint32_t field, uint64_t value) { return raw(field << 3).raw(value); }
  Message& bytes(uint32_t field, std::string_view value) {
    raw(field << 3 | 2).raw(value.size());
    text_ += value;
    return *this;
  }
  Message& number(uint32_t field, float value) {
    raw(field << 3 | 5);
    char four[4];
    std::memcpy(four, &value, 4);
    text_.append(four, 4);
    return *this;
  }
  const std::string& str() const { return text_; }

 private:
  Message& raw(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
    return *this;
  }
  std::string text_;
};

struct FilePiece {
  std::string text;
  float score = 0;
  uint64_t type = 1;
};

/// <unk>, <s>, </s>, the 256 bytes if asked for, then `pieces`.
inline std::string sentencepiece_file(const std::vector<FilePiece>& pieces, uint64_t model_type,
                                      bool byte_fallback, const Message& normalizer = {},
                                      Message trainer = {}) {
  Message file;
  const auto add = [&](const FilePiece& piece) {
    Message message;
    message.bytes(1, piece.text).number(2, piece.score);
    if (piece.type != 1) message.varint(3, piece.type);
    file.bytes(1, message.str());
  };
  add({"<unk>", 0, 2});
  add({"<s>", 0, 3});
  add({"</s>", 0, 3});
  constexpr char kDigits[] = "0123456789ABCDEF";
  for (size_t byte = 0; byte_fallback && byte < 256; ++byte)
    add({std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">", 0, 6});
  for (const FilePiece& piece : pieces) add(piece);
  trainer.varint(3, model_type).varint(35, byte_fallback ? 1 : 0);
  file.bytes(2, trainer.str()).bytes(3, normalizer.str());
  return file.str();
}

}  // namespace megalith::vocabularies
