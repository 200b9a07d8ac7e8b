// SPDX-License-Identifier: Apache-2.0
#include "grammar_automata/code_set.h"

#include <algorithm>

namespace megalith::grammars {
namespace {

constexpr uint32_t kLastCode = 0x10FFFF, kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

}  // namespace

CodeSet::CodeSet(std::vector<CodeRange> ranges) {
  std::ranges::sort(ranges, {}, &CodeRange::first);
  const auto add = [&](uint32_t first, uint32_t last) {
    if (first > last) return;
    if (!ranges_.empty() && first <= ranges_.back().last + 1)
      ranges_.back().last = std::max(ranges_.back().last, last);
    else
      ranges_.push_back({first, last});
  };
  for (const CodeRange& range : ranges) {
    add(range.first, std::min(range.last, kFirstSurrogate - 1));
    add(std::max(range.first, kLastSurrogate + 1), std::min(range.last, kLastCode));
  }
}

bool CodeSet::contains(uint32_t code) const {
  const auto found = std::ranges::upper_bound(ranges_, code, {}, &CodeRange::first);
  return found != ranges_.begin() && code <= std::prev(found)->last;
}

CodeSet CodeSet::complement() const {
  std::vector<CodeRange> rest;
  uint32_t next = 0;
  for (const CodeRange& range : ranges_) {
    if (range.first > next) rest.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCode) rest.push_back({next, kLastCode});
  return CodeSet(std::move(rest));
}

CodeSet CodeSet::intersected(const CodeSet& other) const {
  std::vector<CodeRange> shared;
  auto a = ranges_.begin(), b = other.ranges_.begin();
  while (a != ranges_.end() && b != other.ranges_.end()) {
    const uint32_t first = std::max(a->first, b->first), last = std::min(a->last, b->last);
    if (first <= last) shared.push_back({first, last});
    a->last < b->last ? ++a : ++b;
  }
  return CodeSet(std::move(shared));
}

const CodeSet& plain_codes() {
  static const CodeSet codes({{0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, kLastCode}});
  return codes;
}

}  // namespace megalith::grammars
