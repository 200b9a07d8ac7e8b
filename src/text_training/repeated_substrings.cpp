// SPDX-License-Identifier: Apache-2.0
// All suffixes of all words are sorted; a stack of the lengths that neighbours share gives each
// repeated substring once, with the sum of its words' counts.
#include "text_training/repeated_substrings.h"

#include <algorithm>

#include "base/integer.h"
#include "characters/utf8.h"

namespace megalith::text {
namespace {

struct Suffix {
  std::string_view text;  // cut to the longest piece
  uint32_t word;
};

size_t characters_in(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

std::vector<Suffix> sorted_suffixes(const WordCounts& words, size_t most_characters) {
  std::vector<Suffix> suffixes;
  for (size_t w = 0; w < words.size(); ++w) {
    const std::string_view word = words.word(w);
    std::vector<size_t> begins;
    for (size_t at = 0; at < word.size(); at += characters::read_utf8(word.data() + at).length)
      begins.push_back(at);
    for (size_t i = 0; i < begins.size(); ++i) {
      const size_t last = i + most_characters;
      const size_t end = last < begins.size() ? begins[last] : word.size();
      suffixes.push_back({word.substr(begins[i], end - begins[i]), narrow<uint32_t>(w)});
    }
  }
  std::sort(suffixes.begin(), suffixes.end(), [](const Suffix& a, const Suffix& b) {
    return a.text != b.text ? a.text < b.text : a.word < b.word;
  });
  return suffixes;
}

// Bytes that two texts share, whole characters only.
size_t shared_length(std::string_view a, std::string_view b) {
  size_t length = 0;
  while (length < a.size() && length < b.size() && a[length] == b[length]) ++length;
  while (length > 0 && length < a.size() && (static_cast<uint8_t>(a[length]) & 0xC0) == 0x80)
    --length;
  return length;
}

}  // namespace

std::vector<Substring> repeated_substrings(const WordCounts& words, size_t most_characters,
                                           size_t most) {
  const std::vector<Suffix> suffixes = sorted_suffixes(words, most_characters);
  struct Open {
    size_t length;
    int64_t count;
  };
  std::vector<Open> open{{0, 0}};
  std::vector<Substring> found;
  const auto close = [&](std::string_view text, const Open& substring) {
    const std::string_view piece = text.substr(0, substring.length);
    if (substring.count >= 2 && characters_in(piece) >= 2)
      found.push_back({std::string(piece), substring.count});
  };
  for (size_t i = 0; i < suffixes.size(); ++i) {
    const std::string_view text = suffixes[i].text;
    if (open.back().length != text.size()) open.push_back({text.size(), 0});
    open.back().count += words.count(suffixes[i].word);
    const size_t shared = i + 1 < suffixes.size() ? shared_length(text, suffixes[i + 1].text) : 0;
    while (open.back().length > shared) {
      const Open closed = open.back();
      open.pop_back();
      close(text, closed);
      if (open.back().length >= shared) {
        open.back().count += closed.count;
      } else {
        open.push_back({shared, closed.count});
      }
    }
  }
  const auto gain = [](const Substring& s) {
    return s.count * static_cast<int64_t>(characters_in(s.text));
  };
  std::sort(found.begin(), found.end(), [&](const Substring& a, const Substring& b) {
    return gain(a) != gain(b) ? gain(a) > gain(b) : a.text < b.text;
  });
  if (found.size() > most) found.resize(most);
  return found;
}

}  // namespace megalith::text
