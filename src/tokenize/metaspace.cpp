// SPDX-License-Identifier: Apache-2.0
// Most words have neither space nor mark, and are then one word with the mark before them.
#include <algorithm>

#include "tokenize/pre_tokenizer.h"

namespace megalith::tokenize {
namespace {

// Appends the word with its spaces as marks.
void append_marked(std::string_view word, std::string_view mark, std::string& out) {
  for (size_t at = 0; at < word.size();) {
    const size_t space = std::min(word.find(' ', at), word.size());
    out.append(word.substr(at, space - at));
    if (space < word.size()) out.append(mark);
    at = space + 1;
  }
}

// Appends the words of text[begin, end): each mark begins one.
void append_words(std::string_view text, size_t begin, std::string_view mark,
                  std::vector<Words::Word>& words) {
  for (size_t at = text.find(mark, begin); at != std::string_view::npos;
       at = text.find(mark, at + mark.size())) {
    if (begin < at) words.push_back({begin, at});
    begin = at;
  }
  if (begin < text.size()) words.push_back({begin, text.size()});
}

}  // namespace

void cut_with_marks(const Metaspace& step, Words& words) {
  using Scheme = Metaspace::Scheme;
  const std::string_view mark = step.replacement;
  std::string& out = words.rewritten[words.text.data() == words.rewritten[0].data() ? 1 : 0];
  out.clear();
  words.cut.clear();
  for (size_t i = 0; i < words.words.size(); ++i) {
    const std::string_view word =
        words.text.substr(words.words[i].begin, words.words[i].end - words.words[i].begin);
    const bool is_plain = word.find(' ') == std::string_view::npos &&
                          word.find(mark.front()) == std::string_view::npos;
    const bool has_mark = !is_plain && (word.starts_with(mark) || word.front() == ' ');
    const bool prepends =
        step.scheme == Scheme::always || (step.scheme == Scheme::first && i == 0 && words.at_start);
    const size_t begin = out.size();
    if (prepends && !has_mark) out.append(mark);
    if (is_plain) {
      out.append(word);
    } else {
      append_marked(word, mark, out);
    }
    if (is_plain || !step.split) {
      words.cut.push_back({begin, out.size()});
    } else {
      append_words(out, begin, mark, words.cut);
    }
  }
  words.text = out;
  words.words.swap(words.cut);
}

}  // namespace megalith::tokenize
