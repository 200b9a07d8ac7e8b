// SPDX-License-Identifier: Apache-2.0
// The tables behind code_class.h. Whole bytes (four code points) are written at once, which
// keeps the work of the compiler's constant evaluation below the limits of both compilers.
#include "characters/code_class.h"

#include <algorithm>
#include <iterator>

#include "characters/code_ranges.h"

namespace megalith::characters {
namespace {

// White_Space of PropList.txt, which is also Oniguruma's \s (U+001C..1F and U+180E are outside).
constexpr CodeRange kSpaceRanges[] = {
    {0x9, 0xD},       {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
};

using Table = std::array<uint8_t, kClassifiedEnd / 4>;

constexpr void set_one(Table& table, uint32_t code, uint32_t value) {
  table[code >> 2] = static_cast<uint8_t>(table[code >> 2] | (value << ((code & 3) * 2)));
}

constexpr void set_range(Table& table, CodeRange range, uint32_t value) {
  uint32_t code = range.first;
  for (; code <= range.last && (code & 3) != 0; ++code) set_one(table, code, value);
  for (; code + 3 <= range.last; code += 4) table[code >> 2] = static_cast<uint8_t>(value * 0x55);
  for (; code <= range.last; ++code) set_one(table, code, value);
}

constexpr Table make_table() {
  Table table{};
  for (const CodeRange& range : kLetterRanges)
    set_range(table, range, static_cast<uint32_t>(CodeClass::letter));
  for (const CodeRange& range : kNumberRanges)
    set_range(table, range, static_cast<uint32_t>(CodeClass::number));
  for (const CodeRange& range : kSpaceRanges)
    set_range(table, range, static_cast<uint32_t>(CodeClass::space));
  return table;
}

static_assert(std::end(kLetterRanges)[-1].last < kClassifiedEnd);
static_assert(std::end(kNumberRanges)[-1].last < kClassifiedEnd);

}  // namespace

constinit const Table kClassTable = make_table();

bool is_word_code(uint32_t code) {
  const CodeRange* range =
      std::lower_bound(std::begin(kWordRanges), std::end(kWordRanges), code,
                       [](const CodeRange& r, uint32_t value) { return r.last < value; });
  return range != std::end(kWordRanges) && range->first <= code;
}

std::string_view unicode_version() { return kUnicodeVersion; }

}  // namespace megalith::characters
