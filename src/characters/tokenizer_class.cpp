// SPDX-License-Identifier: Apache-2.0
#include "characters/tokenizer_class.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <string>

#include "characters/case_ranges.h"
#include "characters/cluster_ranges.h"
#include "characters/code_class.h"
#include "characters/tokenizer_ranges.h"
#include "characters/utf8.h"

namespace megalith::characters {
namespace {

constexpr uint32_t kCodes = 0x110000;

void set(std::vector<uint16_t>& flags, std::span<const CodeRange> ranges, uint16_t flag) {
  for (const CodeRange& range : ranges)
    for (uint32_t code = range.first; code <= range.last; ++code) flags[code] |= flag;
}

bool is_pictographic(uint32_t code) {
  return u_hasBinaryProperty(static_cast<UChar32>(code), UCHAR_EXTENDED_PICTOGRAPHIC) != 0;
}

void set(std::vector<uint16_t>& flags, std::span<const SteppedRange> ranges, uint16_t flag) {
  for (const SteppedRange& range : ranges)
    for (uint32_t code = range.first; code <= range.last; code += range.step) flags[code] |= flag;
}

}  // namespace

TokenizerClasses::TokenizerClasses() {
  std::vector<uint16_t> flags(kCodes, 0);
  set(flags, std::span(kRemovedRanges), kRemoved);
  set(flags, std::span(kNonspacingRanges), kNonspacing);
  set(flags, std::span(kMarkRanges), kMark);
  set(flags, std::span(kPunctuationRanges), kPunctuation);
  set(flags, std::span(kNumericRanges), kNumeric);
  set(flags, std::span(kRegexWordRanges), kRegexWord);
  set(flags, std::span(kJoiningRanges), kJoining);
  set(flags, std::span(kAloneRanges), kAlone);
  set(flags, std::span(kPrependedRanges), kPrepended);
  set(flags, std::span(kUpperRanges), kUpper);
  set(flags, std::span(kLowerRanges), kLower);
  set(flags, std::span(kAnyMarkRanges), kAnyMark);
  for (uint32_t code = 0; code < kClassifiedEnd; ++code)
    if (class_of(code) == CodeClass::space) flags[code] |= kWhiteSpace;
  for (const LowerRun& run : kLowerRuns)
    for (uint32_t code = run.first; code <= run.last; code += run.step) flags[code] |= kHasLower;
  flags[0x130] |= kHasLower;
  std::map<std::vector<uint16_t>, uint32_t> known;
  for (uint32_t page = 0; page < pages_.size(); ++page) {
    const auto begin = flags.begin() + page * 256;
    const auto [place, is_new] = known.emplace(std::vector<uint16_t>(begin, begin + 256),
                                               static_cast<uint32_t>(flags_.size()));
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

size_t cluster_length(std::string_view text, size_t at) {
  constexpr uint32_t kZeroWidthJoiner = 0x200D;
  const TokenizerClasses& classes = tokenizer_classes();
  if (text.substr(at).starts_with("\r\n")) return 2;
  size_t end = at;
  uint32_t base = 0;
  uint16_t flags = 0;
  const auto take = [&] {
    const CodePoint point = read_utf8(text.data() + end);
    base = point.code;
    flags = classes.of(base);
    end += point.length;
  };
  const auto next_flags = [&] { return classes.of(read_utf8(text.data() + end).code); };
  for (take(); (flags & kPrepended) != 0 && end < text.size() && (next_flags() & kAlone) == 0;)
    take();
  if ((flags & kAlone) != 0) return end - at;
  uint32_t last = base;
  while (end < text.size()) {
    const CodePoint point = read_utf8(text.data() + end);
    const bool is_joined = (classes.of(point.code) & kJoining) != 0;
    const bool is_picture =
        last == kZeroWidthJoiner && is_pictographic(base) && is_pictographic(point.code);
    if (!is_joined && !is_picture) break;
    if (is_picture) base = point.code;
    last = point.code;
    end += point.length;
  }
  return end - at;
}

}  // namespace megalith::characters
