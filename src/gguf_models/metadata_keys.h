// SPDX-License-Identifier: Apache-2.0
// Typed look-ups in the metadata of a GGUF file, by the keys of its architecture. A wrong type is a
// UserError naming file and key.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/value.h"

namespace megalith::gguf_models {

class MetadataKeys {
 public:
  /// `architecture` stands, with a dot, before every key that is asked for.
  MetadataKeys(const gguf::Metadata& metadata, std::string where, std::string_view architecture)
      : metadata_(metadata), where_(std::move(where)), prefix_(std::string(architecture) + ".") {}

  const std::string& where() const { return where_; }
  /// The key as the file has it.
  std::string full(std::string_view key) const { return prefix_ + std::string(key); }
  bool has(std::string_view key) const { return value(key) != nullptr; }
  /// Null when absent.
  const gguf::Value* value(std::string_view key) const;
  /// At least 1; nothing: the file must have it.
  int64_t size(std::string_view key, std::optional<int64_t> otherwise = {}) const;
  /// At least 0.
  int64_t count(std::string_view key, int64_t otherwise) const;
  /// Of a 32-bit number the shortest decimal that it stands for: 1e-05, not 9.9999997e-06.
  double number(std::string_view key, double otherwise) const;
  bool boolean(std::string_view key, bool otherwise) const;
  std::string text(std::string_view key, std::string_view otherwise) const;
  /// Nothing when it is absent.
  std::optional<std::vector<bool>> booleans(std::string_view key) const;
  /// Refuses every other key of the architecture, unless it is 0 or stands in `harmless` (a space
  /// before and behind each): it may change the arithmetic.
  void no_others(std::string_view harmless) const;

 private:
  [[noreturn]] void refuse(std::string_view key, const gguf::Value& value,
                           std::string_view needed) const;
  const gguf::Metadata& metadata_;
  std::string where_, prefix_;
  mutable std::set<std::string, std::less<>> asked_;
};

/// The double of the shortest decimal that rounds to `value`.
double shortest(float value);

}  // namespace megalith::gguf_models
