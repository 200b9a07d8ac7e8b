// SPDX-License-Identifier: Apache-2.0
#include "objectives/fill_in_middle.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "math/random.h"
#include "objectives/draws.h"
#include "objectives/text_characters.h"

namespace megalith::objectives {
namespace {

/// Of StarCoder and SantaCoder, of cl100k and Qwen, of DeepSeek.
const std::array<MiddleTokens, 4> kKnown = {{
    {"<fim_prefix>", "<fim_middle>", "<fim_suffix>"},
    {"<fim-prefix>", "<fim-middle>", "<fim-suffix>"},
    {"<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"},
    {"<\uFF5Cfim\u2581begin\uFF5C>", "<\uFF5Cfim\u2581end\uFF5C>", "<\uFF5Cfim\u2581hole\uFF5C>"},
}};

/// Cut, encoded and put together again, a text is the same: no spaces are put in front of it.
void require_faithful(const text::Tokenizer& tokenizer) {
  for (const std::string_view piece : {"a", " a", "  ", "\n"}) {
    std::string said;
    for (const int32_t id : tokenizer.encode(piece, false)) said += tokenizer.token_bytes(id);
    if (said == piece) continue;
    throw UserError(
        "train.fim needs a data.tokenizer whose tokens of a piece of text say that piece, as a "
        "byte-level one's; this one makes {:?} of {:?}",
        said, piece);
  }
}

MiddleTokens names_of(const text::Tokenizer& tokenizer, const MiddleTokens& given) {
  if (!given.prefix.empty()) return given;
  const auto found = std::ranges::find_if(
      kKnown, [&](const MiddleTokens& names) { return tokenizer.id_of(names.prefix).has_value(); });
  if (found != kKnown.end()) return *found;
  throw UserError(
      "train.fim needs a data.tokenizer with tokens for prefix, middle and suffix, as "
      "<fim_prefix>, "
      "<fim_middle> and <fim_suffix>; name this one's in train.fim.prefix, middle and suffix");
}

int32_t id_of(const text::Tokenizer& tokenizer, const std::string& token) {
  const auto id = tokenizer.id_of(token);
  if (!id) throw UserError("train.fim: data.tokenizer has no token {:?}", token);
  return *id;
}

/// A sample has few words, and its encoder is soon gone.
constexpr size_t kCacheWords = 1024;

}  // namespace

/// What becomes of a text; places are parts of 2^32.
struct FillInMiddle::Draw {
  bool cut = false;
  bool suffix_first = false;
  std::array<uint32_t, 2> places = {};
};

FillInMiddle::FillInMiddle(const text::Tokenizer& tokenizer, const FillInMiddleOptions& options)
    : tokenizer_(tokenizer), cut_(threshold(options.rate)), spm_(threshold(options.spm_rate)) {
  require_faithful(tokenizer);
  const MiddleTokens names = names_of(tokenizer, options.tokens);
  prefix_ = id_of(tokenizer, names.prefix);
  middle_ = id_of(tokenizer, names.middle);
  suffix_ = id_of(tokenizer, names.suffix);
  end_of_document_ = tokenizer.end_of_document().value_or(-1);
}

FillInMiddle::Draw FillInMiddle::draw(uint64_t key, uint64_t text) const {
  const PhiloxBlock block = philox(key, text, 0);
  return {block[0] < cut_, block[1] < spm_, {block[2], block[3]}};
}

void FillInMiddle::append_cut(text::Encoder& encoder, const Draw& draw,
                              std::span<const int32_t> text, std::vector<int32_t>& out) const {
  const TextCharacters characters(tokenizer_, text);
  const auto place = [&](uint32_t part) {
    return static_cast<size_t>((uint64_t{part} * (characters.size() + 1)) >> 32);
  };
  const auto [begin, end] = std::minmax({place(draw.places[0]), place(draw.places[1])});
  const size_t before = out.size();
  const auto add = [&](size_t from, size_t to) { characters.encode(encoder, from, to, out); };
  out.push_back(prefix_);
  if (draw.suffix_first) {
    out.push_back(suffix_);
    add(end, characters.size());
    out.push_back(middle_);
    add(0, begin);
  } else {
    add(0, begin);
    out.push_back(suffix_);
    add(end, characters.size());
    out.push_back(middle_);
  }
  add(begin, end);
  if (out.size() - before >= text.size()) return;
  out.resize(before);
  out.insert(out.end(), text.begin(), text.end());
}

void FillInMiddle::change(uint64_t key, std::span<int32_t> tokens) const {
  text::Encoder encoder(tokenizer_, kCacheWords);
  std::vector<int32_t> out;
  uint64_t number = 0;
  for (size_t begin = 0; begin < tokens.size() && out.size() < tokens.size(); ++begin) {
    const auto rest = tokens.subspan(begin);
    const auto end = static_cast<size_t>(std::ranges::find(rest, end_of_document_) - rest.begin());
    const auto text = rest.first(end);
    const Draw drawn = draw(key, number++);
    if (drawn.cut && !text.empty()) {
      append_cut(encoder, drawn, text, out);
    } else {
      out.insert(out.end(), text.begin(), text.end());
    }
    begin += end;
    if (begin < tokens.size()) out.push_back(end_of_document_);
  }
  std::copy_n(out.begin(), tokens.size(), tokens.begin());
}

data::ChangeTokens rearranged(FillInMiddle middle, uint64_t seed) {
  const uint64_t key = random_key(seed, "fill in the middle");
  return [middle = std::move(middle), key](const data::SampleAddress& address,
                                           std::span<int32_t> tokens) {
    middle.change(sample_key(key, address), tokens);
  };
}

}  // namespace megalith::objectives
