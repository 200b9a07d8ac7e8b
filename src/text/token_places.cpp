// SPDX-License-Identifier: Apache-2.0
// Runs a text through the stages of an encoding once more, tracking for each byte of their output
// the characters that it comes from. If the ids differ from the encoding's, the text is refused.
#include "text/token_places.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "characters/tokenizer_class.h"
#include "characters/utf8.h"
#include "text/tokenizer_data.h"

namespace megalith::text {
namespace {

[[noreturn]] void refuse_places() {
  throw UserError(
      "this tokenizer gives no offsets of tokens in a text; use one of WordPiece or byte-level BPE "
      "whose normalizer changes single characters");
}

/// A text behind the normaliser.
struct TracedText {
  std::string text;
  std::vector<TextRange> from;  // of each byte
};

/// Characters that a normaliser may join: one and the marks behind it.
size_t cluster_end(std::string_view text, size_t at, bool with_marks) {
  at += characters::read_utf8(text.data() + at).length;
  while (with_marks && at < text.size()) {
    const auto next = characters::read_utf8(text.data() + at);
    if ((characters::tokenizer_classes().of(next.code) & characters::kAnyMark) == 0) break;
    at += next.length;
  }
  return at;
}

class TokenPlacer {
 public:
  TokenPlacer(const Tokenizer& tokenizer, std::string_view text)
      : tokenizer_(tokenizer), data_(tokenizer.data()), text_(text) {
    ids_ = tokenizer.encode(text, false);
  }

  PlacedTokens place() {
    std::vector<TextPart> parts;
    data_.raw_matcher.split(text_, parts);
    for (const TextPart& part : parts) {
      const auto begin = static_cast<int64_t>(part.text.data() - text_.data());
      if (part.id >= 0) {
        add(part.id, {begin, begin + static_cast<int64_t>(part.text.size())});
      } else {
        place_normalized(traced(part.text, begin));
      }
    }
    if (placed_.ids != ids_) refuse_places();
    return std::move(placed_);
  }

 private:
  TracedText traced(std::string_view part, int64_t begin) const {
    for (const bool with_marks : {false, true}) {
      TracedText made;
      for (size_t at = 0; at < part.size();) {
        const size_t end = cluster_end(part, at, with_marks);
        made.text += data_.normalizer.apply(part.substr(at, end - at));
        made.from.resize(made.text.size(),
                         {begin + static_cast<int64_t>(at), begin + static_cast<int64_t>(end)});
        at = end;
      }
      if (data_.normalizer.apply(part) == made.text) return made;
    }
    refuse_places();
  }

  void place_normalized(const TracedText& made) {
    std::vector<TextPart> parts;
    data_.normalized_matcher.split(made.text, parts);
    for (const TextPart& part : parts) {
      const auto begin = static_cast<size_t>(part.text.data() - made.text.data());
      if (part.id >= 0) {
        add_bytes(part.id, made, begin, part.text.size());
      } else if (data_.kind == ModelKind::wordpiece) {
        place_words(made, begin, part.text);
      } else if (data_.kind == ModelKind::byte_bpe) {
        place_bytes(made, begin, part.text);
      } else {
        refuse_places();
      }
    }
  }

  /// Of each word its tokens one behind the other, or an unknown one for all of it.
  void place_words(const TracedText& made, size_t begin, std::string_view part) {
    tokenize::Words words;
    data_.pre_tokenizer.cut(part, begin == 0, words);
    if (words.text != part) refuse_places();  // rewritten
    std::vector<int32_t> ids;
    for (const tokenize::Words::Word& each : words.words) {
      const std::string_view word = part.substr(each.begin, each.end - each.begin);
      ids.clear();
      data_.wordpiece.encode_word(word, ids);
      size_t at = 0;
      for (const int32_t id : ids) {
        const std::string token = tokenizer_.token_text(id);
        const size_t prefix = at == 0 ? 0 : data_.wordpiece.options().continuing_prefix.size();
        const bool is_whole = ids.size() == 1;  // known or not
        const size_t length = is_whole ? word.size() : token.size() - prefix;
        add_bytes(id, made, begin + each.begin + at, length);
        at += length;
      }
    }
  }

  /// The bytes of the tokens are those of the text, but for a space that may come before it.
  void place_bytes(const TracedText& made, size_t begin, std::string_view part) {
    for (size_t at = 0; at < part.size();) {
      if (placed_.ids.size() >= ids_.size()) refuse_places();
      const int32_t id = ids_[placed_.ids.size()];
      std::string_view bytes = tokenizer_.token_bytes(id);
      if (at == 0 && part.front() != ' ' && bytes.starts_with(' ')) bytes.remove_prefix(1);
      if (part.substr(at, bytes.size()) != bytes) refuse_places();
      add_bytes(id, made, begin + at, bytes.size());
      at += bytes.size();
    }
  }

  void add_bytes(int32_t id, const TracedText& made, size_t begin, size_t count) {
    constexpr std::string_view kSpace = " \t\n\v\f\r";
    const auto is_space = [&](size_t at) {
      return kSpace.find(made.text[at]) != std::string_view::npos;
    };
    size_t end = std::min(begin + count, made.text.size());
    while (begin < end && is_space(begin)) ++begin;
    while (end > begin && is_space(end - 1)) --end;
    if (begin < end) return add(id, {made.from[begin].begin, made.from[end - 1].end});
    const int64_t at = begin < made.from.size() ? made.from[begin].begin : end_of(made);
    add(id, {at, at});
  }
  static int64_t end_of(const TracedText& made) {
    return made.from.empty() ? 0 : made.from.back().end;
  }

  void add(int32_t id, TextRange place) {
    placed_.ids.push_back(id);
    placed_.places.push_back(place);
  }

  const Tokenizer& tokenizer_;
  const TokenizerData& data_;
  std::string_view text_;
  std::vector<int32_t> ids_;  // of the encoding, which the placed ones have to equal
  PlacedTokens placed_;
};

}  // namespace

PlacedTokens encode_with_places(const Tokenizer& tokenizer, std::string_view text) {
  return TokenPlacer(tokenizer, text).place();
}

}  // namespace megalith::text
