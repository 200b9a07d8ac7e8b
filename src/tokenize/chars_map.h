// SPDX-License-Identifier: Apache-2.0
// SentencePiece's compiled normalisation rules, as tokenizer.json's Precompiled applies them: a
// double array (darts-clone's layout) whose values are places in a text of results, each ended by a
// zero byte. What comes from a file is not trusted: every step is checked.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace megalith::tokenize {

class CharsMap {
 public:
  /// Reads the rules; UserError, naming `where`, if they are cut off or their results no UTF-8.
  CharsMap(std::string_view compiled, std::string_view where);

  /// Appends the normalised text: of each grapheme cluster of up to five bytes what the rule of its
  /// shortest known beginning says (even if that drops the rest, as the peer does), of others that
  /// of each character. False if that takes away the start.
  bool append(std::string_view text, std::string& out) const;
  const std::string& compiled() const { return compiled_; }

 private:
  std::optional<std::string_view> find(std::string_view text) const;
  void append_cluster(std::string_view cluster, std::string& out) const;

  std::string compiled_;
  std::vector<uint32_t> units_;
  std::string results_;
  std::array<bool, 128> changes_ascii_{};  // a rule begins with this character
};

}  // namespace megalith::tokenize
