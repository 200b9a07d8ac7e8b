// SPDX-License-Identifier: Apache-2.0
// Typed look-ups of the keys tokenizer.ggml.*, which are named without that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/value.h"

namespace megalith::vocabularies {

class GgufKeys {
 public:
  GgufKeys(const gguf::Metadata& metadata, std::string_view where)
      : metadata_(metadata), where_(where) {}
  std::string_view where() const { return where_; }

  /// Null if the key is absent.
  const gguf::Value* find(std::string_view key) const;
  /// UserError if the key is absent (unless there is a default) or of another type.
  std::string text(std::string_view key) const;
  std::string text(std::string_view key, std::string_view absent) const;
  bool boolean(std::string_view key, bool absent) const;
  std::vector<std::string> texts(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;
  /// The kinds of the tokens; all normal if there are none.
  std::vector<int64_t> kinds(size_t count) const;
  /// An id of one of `count` tokens; nothing if the key is absent. UserError beyond them.
  std::optional<int32_t> id(std::string_view key, size_t count) const;

 private:
  [[noreturn]] void refuse(std::string_view key, std::string_view wanted) const;
  const gguf::Metadata& metadata_;
  std::string_view where_;
};

}  // namespace megalith::vocabularies
