// SPDX-License-Identifier: Apache-2.0
#include "tokenize/pre_tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "characters/tokenizer_class.h"
#include "characters/utf8.h"
#include "tokenize/byte_level.h"

namespace megalith::tokenize {
namespace {

using Word = Words::Word;
using Match = Words::Match;
using characters::CodePoint;

// A step that only cuts: find(text, matches) lists matches and what lies between, in order.
template <typename Find>
void cut_each(Words& words, SplitBehavior behavior, const Find& find) {
  words.cut.clear();
  const size_t first = words.words.empty() ? 0 : words.words[0].begin;
  for (const Word word : words.words) {
    words.matches.clear();
    find(words.text.substr(word.begin, word.end - word.begin), words.matches);
    for (Match& match : words.matches)
      match = {match.begin + word.begin, match.end + word.begin, match.is_match};
    append_split(words.matches, behavior, words.cut);
  }
  words.at_start = words.at_start && !words.cut.empty() && words.cut[0].begin == first;
  words.words.swap(words.cut);
}

// Each character of a class is a match.
template <typename IsMatch>
auto characters_that(const IsMatch& is_match) {
  return [&is_match](std::string_view text, std::vector<Match>& matches) {
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
      const CodePoint point = characters::read_utf8(text.data() + at);
      const size_t end = at + point.length;
      if (is_match(point.code)) {
        if (done < at) matches.push_back({done, at, false});
        matches.push_back({at, end, true});
        done = end;
      }
      at = end;
    }
    if (done < text.size()) matches.push_back({done, text.size(), false});
  };
}

template <uint16_t Class>
void cut_class(Words& words, SplitBehavior behavior) {
  const auto& classes = characters::tokenizer_classes();
  const auto is_match = [&](uint32_t code) { return (classes.of(code) & Class) != 0; };
  cut_each(words, behavior, characters_that(is_match));
}

// The ASCII characters that are of a class.
template <uint16_t Class>
const std::array<bool, 128>& ascii_of_class() {
  static const std::array<bool, 128> table = [] {
    std::array<bool, 128> made{};
    for (uint32_t code = 0; code < 128; ++code)
      made[code] = (characters::tokenizer_classes().of(code) & Class) != 0;
    return made;
  }();
  return table;
}

// Words of characters that are not `Gap`; those that are `Alone` are words by themselves.
template <uint16_t Gap, uint16_t Alone>
void cut_words(Words& words) {
  const auto& classes = characters::tokenizer_classes();
  const std::array<bool, 128>& cuts = ascii_of_class<Gap | Alone>();
  const char* const text = words.text.data();
  words.cut.clear();
  const size_t first = words.words.empty() ? 0 : words.words[0].begin;
  for (const Word word : words.words) {
    size_t begin = word.begin;
    for (size_t at = word.begin; at < word.end;) {
      const uint8_t byte = static_cast<uint8_t>(text[at]);
      if (byte < 0x80 && !cuts[byte]) {
        ++at;
        continue;
      }
      const CodePoint point = characters::read_utf8(text + at);
      const size_t end = at + point.length;
      if (const uint16_t flags = classes.of(point.code); (flags & (Gap | Alone)) != 0) {
        if (begin < at) words.cut.push_back({begin, at});
        if ((flags & Gap) == 0) words.cut.push_back({at, end});
        begin = end;
      }
      at = end;
    }
    if (begin < word.end) words.cut.push_back({begin, word.end});
  }
  words.at_start = words.at_start && !words.cut.empty() && words.cut[0].begin == first;
  words.words.swap(words.cut);
}

void run(BertWords, Words& words) {
  cut_words<characters::kWhiteSpace, characters::kPunctuation>(words);
}

void run(SpaceSplit, Words& words) { cut_words<characters::kWhiteSpace, 0>(words); }

void run(WordRuns, Words& words) {
  const auto& classes = characters::tokenizer_classes();
  const auto kind_at = [&](size_t at, size_t& end) {
    const CodePoint point = characters::read_utf8(words.text.data() + at);
    end = at + point.length;
    return classes.of(point.code) & (characters::kRegexWord | characters::kWhiteSpace);
  };
  words.cut.clear();
  const size_t first = words.words.empty() ? 0 : words.words[0].begin;
  for (const Word word : words.words) {
    for (size_t at = word.begin, next = 0; at < word.end;) {
      const int kind = kind_at(at, next);
      size_t end = next;
      while (end < word.end && kind_at(end, next) == kind) end = next;
      if ((kind & characters::kWhiteSpace) == 0) words.cut.push_back({at, end});
      at = end;
    }
  }
  words.at_start = words.at_start && !words.cut.empty() && words.cut[0].begin == first;
  words.words.swap(words.cut);
}

void run(PunctuationSplit step, Words& words) {
  cut_class<characters::kPunctuation>(words, step.behavior);
}

void run(DigitSplit step, Words& words) {
  cut_class<characters::kNumeric>(
      words, step.individual ? SplitBehavior::isolated : SplitBehavior::contiguous);
}

void find_string(std::string_view wanted, bool invert, std::string_view text,
                 std::vector<Match>& matches) {
  size_t done = 0;
  for (size_t at = text.find(wanted); at != std::string_view::npos; at = text.find(wanted, done)) {
    if (done < at) matches.push_back({done, at, invert});
    done = at + wanted.size();
    matches.push_back({at, done, !invert});
  }
  if (done < text.size()) matches.push_back({done, text.size(), invert});
}

void run(const DelimiterSplit& step, Words& words) {
  cut_each(words, SplitBehavior::removed, [&](std::string_view text, std::vector<Match>& matches) {
    find_string(step.delimiter, false, text, matches);
  });
}

void run(const StringSplit& step, Words& words) {
  cut_each(words, step.behavior, [&](std::string_view text, std::vector<Match>& matches) {
    find_string(step.text, step.invert, text, matches);
  });
}

void run(const RegexSplit& step, Words& words) {
  cut_each(words, step.behavior, [&](std::string_view text, std::vector<Match>& matches) {
    step.regex->find(text, matches);
    for (Match& match : matches) match.is_match = match.is_match != step.invert;
  });
}

void scan(WordScanner scanner, Words& words) {
  words.cut.clear();
  for (const Word word : words.words) {
    const char* const base = words.text.data();
    for (const char* at = base + word.begin; at < base + word.end;) {
      const char* const end = scanner(at, base + word.end);
      words.cut.push_back({static_cast<size_t>(at - base), static_cast<size_t>(end - base)});
      at = end;
    }
  }
  words.words.swap(words.cut);
}

void run(PatternSplit step, Words& words) { scan(word_scanner(step.pattern), words); }

// A step that rewrites each word: rewrite(word, is_first, out).
template <typename Rewrite>
void rewrite_each(Words& words, const Rewrite& rewrite) {
  std::string& out = words.rewritten[words.text.data() == words.rewritten[0].data() ? 1 : 0];
  out.clear();
  words.cut.clear();
  for (const Word word : words.words) {
    const size_t begin = out.size();
    rewrite(words.text.substr(word.begin, word.end - word.begin), words.cut.empty(), out);
    words.cut.push_back({begin, out.size()});
  }
  words.text = out;
  words.words.swap(words.cut);
}

void run(const Metaspace& step, Words& words) { cut_with_marks(step, words); }

void run(const ByteLevelSplit& step, Words& words) {
  if (step.add_prefix_space) {
    rewrite_each(words, [](std::string_view word, bool /*is_first*/, std::string& out) {
      if (word.front() != ' ') out.push_back(' ');
      out.append(word);
    });
  }
  if (step.use_regex) scan(word_scanner(SplitPattern::gpt2), words);
  if (step.map_bytes) {
    rewrite_each(words, [](std::string_view word, bool /*is_first*/, std::string& out) {
      out.append(bytes_to_token(word));
    });
  }
}

}  // namespace

void append_split(std::span<const Words::Match> matches, SplitBehavior behavior,
                  std::vector<Words::Word>& words) {
  const auto add = [&](const Match& match) {
    if (match.begin < match.end) words.push_back({match.begin, match.end});
  };
  switch (behavior) {
    case SplitBehavior::removed:
      for (const Match& match : matches)
        if (!match.is_match) add(match);
      return;
    case SplitBehavior::isolated:
      for (const Match& match : matches) add(match);
      return;
    default:
      break;
  }
  // One word is a row [from, to) of neighbours.
  for (size_t from = 0; from < matches.size();) {
    size_t to = from + 1;
    if (behavior == SplitBehavior::contiguous) {
      while (to < matches.size() && matches[to].is_match == matches[from].is_match) ++to;
    } else if (to < matches.size() && (behavior == SplitBehavior::merged_with_previous
                                           ? !matches[from].is_match && matches[to].is_match
                                           : matches[from].is_match && !matches[to].is_match)) {
      ++to;
    }
    add({matches[from].begin, matches[to - 1].end, false});
    from = to;
  }
}

PreTokenizer::PreTokenizer(std::vector<PreTokenizerStep> steps) : steps_(std::move(steps)) {
  if (steps_.empty()) return;
  const auto* const bytes = std::get_if<ByteLevelSplit>(&steps_.back());
  if (bytes == nullptr || bytes->map_bytes) return;
  const auto* const pattern = std::get_if<PatternSplit>(&steps_.front());
  if (steps_.size() == 1) {
    scanner_ = word_scanner(bytes->use_regex ? SplitPattern::gpt2 : SplitPattern::none);
    adds_space_ = bytes->add_prefix_space;
  } else if (steps_.size() == 2 && pattern != nullptr && !bytes->use_regex &&
             !bytes->add_prefix_space) {
    scanner_ = word_scanner(pattern->pattern);
  }
}

void PreTokenizer::cut(std::string_view text, bool at_start, Words& words) const {
  words.text = text;
  words.words.assign(1, {0, text.size()});
  words.at_start = at_start;
  for (const PreTokenizerStep& step : steps_)
    std::visit([&](const auto& s) { run(s, words); }, step);
}

}  // namespace megalith::tokenize
