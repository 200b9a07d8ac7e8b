// SPDX-License-Identifier: Apache-2.0
// Sets of characters: Unicode scalar values in ascending ranges that do not touch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "characters/code_ranges.h"

namespace megalith::grammars {

using characters::CodeRange;

class CodeSet {
 public:
  CodeSet() = default;
  /// Ranges in any order, which may overlap.
  explicit CodeSet(std::vector<CodeRange> ranges);
  static CodeSet all() { return CodeSet({{0, 0x10FFFF}}); }

  std::span<const CodeRange> ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }
  bool contains(uint32_t code) const;
  CodeSet complement() const;
  CodeSet intersected(const CodeSet& other) const;

 private:
  std::vector<CodeRange> ranges_;
};

/// Those of is_plain.
const CodeSet& plain_codes();

}  // namespace megalith::grammars
