// SPDX-License-Identifier: Apache-2.0
#include "characters/tokenizer_class.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <string>

#include "characters/code_class.h"
#include "characters/tokenizer_ranges.h"

namespace megalith::characters {
namespace {

constexpr uint32_t kCodes = 0x110000;

void set(std::vector<uint8_t>& flags, std::span<const CodeRange> ranges, uint8_t flag) {
  for (const CodeRange& range : ranges)
    for (uint32_t code = range.first; code <= range.last; ++code) flags[code] |= flag;
}

}  // namespace

TokenizerClasses::TokenizerClasses() {
  std::vector<uint8_t> flags(kCodes, 0);
  set(flags, kRemovedRanges, kRemoved);
  set(flags, kNonspacingRanges, kNonspacing);
  set(flags, kMarkRanges, kMark);
  set(flags, kPunctuationRanges, kPunctuation);
  set(flags, kNumericRanges, kNumeric);
  set(flags, kRegexWordRanges, kRegexWord);
  for (uint32_t code = 0; code < kClassifiedEnd; ++code)
    if (class_of(code) == CodeClass::space) flags[code] |= kWhiteSpace;
  for (const LowerRun& run : kLowerRuns)
    for (uint32_t code = run.first; code <= run.last; code += run.step) flags[code] |= kHasLower;
  flags[0x130] |= kHasLower;
  std::map<std::string, uint32_t> known;
  for (uint32_t page = 0; page < pages_.size(); ++page) {
    const auto begin = flags.begin() + page * 256;
    const auto [place, is_new] =
        known.emplace(std::string(begin, begin + 256), static_cast<uint32_t>(flags_.size()));
    if (is_new) flags_.insert(flags_.end(), begin, begin + 256);
    pages_[page] = place->second;
  }
}

const TokenizerClasses& tokenizer_classes() {
  static const TokenizerClasses classes;
  return classes;
}

uint32_t lower_of(uint32_t code) {
  if (code == 0x130) return 'i';
  const LowerRun* run =
      std::lower_bound(std::begin(kLowerRuns), std::end(kLowerRuns), code,
                       [](const LowerRun& r, uint32_t value) { return r.last < value; });
  // Runs of every second code may enclose codes that have no lower case.
  if (run == std::end(kLowerRuns) || code < run->first || (code - run->first) % run->step != 0)
    return code;
  return static_cast<uint32_t>(static_cast<int32_t>(code) + run->distance);
}

}  // namespace megalith::characters
