// SPDX-License-Identifier: Apache-2.0
// Tests only: compiled rules of normalisation.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace megalith::tokenize {

// Rules for the characters of `keys` (all of different first bytes, or prefixes of each other), the
// i-th of which gives results[i]. Every depth has its own blocks of 256 units.
inline std::string compile(const std::vector<std::pair<std::string, std::string>>& rules) {
  std::vector<uint32_t> units(256 * 64, 0);
  std::vector<uint32_t> base(units.size(), 0);  // of the children of the node at a place
  uint32_t blocks = 1;
  const auto children = [&](uint32_t place) {
    if (base[place] == 0) base[place] = 256 * blocks++;
    return base[place];
  };
  std::string results;
  units[0] = children(0) << 10;
  for (const auto& [key, result] : rules) {
    uint32_t place = 0;
    for (const char c : key) {
      const uint32_t block = children(place);
      if (place != 0) units[place] |= (place ^ block) << 10;
      place = block ^ static_cast<uint8_t>(c);
      units[place] |= static_cast<uint8_t>(c);
    }
    const uint32_t value = children(place);
    units[place] |= (place ^ value) << 10 | 0x100;
    units[value] = 0x80000000 | static_cast<uint32_t>(results.size());
    results += result + '\0';
  }
  const uint32_t bytes = static_cast<uint32_t>(units.size() * 4);
  std::string compiled(4 + bytes, '\0');
  std::memcpy(compiled.data(), &bytes, 4);
  std::memcpy(compiled.data() + 4, units.data(), bytes);
  return compiled + results;
}

}  // namespace megalith::tokenize
