// SPDX-License-Identifier: Apache-2.0
#include "text/decoder.h"

#include <algorithm>
#include <utility>

#include "characters/utf8.h"
#include "tokenize/byte_fallback.h"
#include "tokenize/byte_level.h"
#include "tokenize/normalizer.h"

namespace megalith::text {
namespace {

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  size_t at = 0;
  for (size_t found = text.find(from); found != std::string_view::npos;
       found = text.find(from, at)) {
    result.append(text.substr(at, found - at));
    result.append(to);
    at = found + from.size();
  }
  result.append(text.substr(at));
  return result;
}

// In this order, as in Hugging Face.
constexpr std::pair<std::string_view, std::string_view> kCleanups[] = {
    {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
    {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
    {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};

std::string cleaned(std::string text) {
  for (const auto& [from, to] : kCleanups)
    if (text.find(from) != std::string::npos) text = replaced(text, from, to);
  return text;
}

bool makes_one_token(const DecoderStep& step) {
  return std::holds_alternative<ByteLevelDecoder>(step) ||
         std::holds_alternative<FuseDecoder>(step);
}

// Whether a step can take a token in parts.
bool takes_parts(const DecoderStep& step) {
  const auto* const strip = std::get_if<StripDecoder>(&step);
  return std::holds_alternative<FuseDecoder>(step) || (strip != nullptr && strip->stop == 0);
}

}  // namespace

Decoder::Decoder(std::vector<DecoderStep> steps) : steps_(std::move(steps)) {
  const auto joining = std::find_if(steps_.begin(), steps_.end(), makes_one_token);
  if (joining == steps_.end()) return;
  one_token_from_ = static_cast<size_t>(joining - steps_.begin()) + 1;
  in_parts_ = std::all_of(joining + 1, steps_.end(), takes_parts);
}

bool Decoder::only_joins_bytes() const {
  const auto* const bytes =
      steps_.size() == 1 ? std::get_if<ByteLevelDecoder>(&steps_[0]) : nullptr;
  return bytes != nullptr && !bytes->parted;
}

void DecoderRun::push(std::string_view token, std::string& text) { step(0, token, text); }

void DecoderRun::pass_over(std::string& text) {
  for (size_t at = 0; at < states_.size(); ++at) {
    const DecoderStep& step = decoder_->steps_[at];
    const auto* const bytes = std::get_if<ByteLevelDecoder>(&step);
    if ((bytes != nullptr && bytes->parted) || std::holds_alternative<SentencePieceDecoder>(step))
      end_bytes(at, text);
  }
}

void DecoderRun::finish(std::string& text) {
  for (size_t at = 0; at < states_.size(); ++at) flush(at, text);
  states_.assign(states_.size(), State{});
}

void DecoderRun::step(size_t at, std::string_view token, std::string& text) {
  if (at == states_.size()) {
    text.append(token);
    return;
  }
  State& state = states_[at];
  if (at == decoder_->one_token_from_ && !decoder_->in_parts_) {
    state.held.append(token);
    return;
  }
  std::visit([&](const auto& s) { take(s, at, token, text); }, decoder_->steps_[at]);
  ++state.tokens;
}

// What a step holds back, when no more tokens come.
void DecoderRun::flush(size_t at, std::string& text) {
  State& state = states_[at];
  if (at == decoder_->one_token_from_ && !decoder_->in_parts_) {
    const std::string whole = std::move(state.held);
    state.held.clear();
    std::visit([&](const auto& s) { take(s, at, whole, text); }, decoder_->steps_[at]);
  }
  const DecoderStep& step = decoder_->steps_[at];
  if (std::holds_alternative<ByteLevelDecoder>(step) ||
      std::holds_alternative<SentencePieceDecoder>(step)) {
    end_bytes(at, text);
  } else if (std::holds_alternative<ByteFallbackDecoder>(step) && !state.held.empty()) {
    std::string rest;
    tokenize::append_byte_run(rest, state.held);
    give(at, rest, text);
  } else if (const auto* suffix = std::get_if<SuffixDecoder>(&step); suffix && state.holds) {
    give(at, replaced(state.held, suffix->suffix, ""), text);
  }
  state.held.clear();
}

void DecoderRun::take(const ByteLevelDecoder&, size_t at, std::string_view token,
                      std::string& text) {
  std::string& held = states_[at].held;
  const std::optional<std::string> bytes = tokenize::token_to_bytes(token);
  held.append(bytes ? std::string_view(*bytes) : token);
  std::string settled;
  held.erase(0, characters::append_repaired_utf8(settled, held, /*hold_tail=*/true));
  give(at, settled, text);
}

void DecoderRun::take(const WordPieceDecoder& step, size_t at, std::string_view token,
                      std::string& text) {
  std::string spelled(token);
  if (states_[at].tokens > 0) {
    const bool goes_on = token.starts_with(step.prefix);
    spelled = goes_on ? std::string(token.substr(step.prefix.size())) : " " + spelled;
  }
  give(at, step.cleanup ? cleaned(std::move(spelled)) : spelled, text);
}

void DecoderRun::take(const MetaspaceDecoder& step, size_t at, std::string_view token,
                      std::string& text) {
  const bool drops = states_[at].tokens == 0 && step.prepended;
  give(at, replaced(token, step.replacement, drops ? "" : " "), text);
}

void DecoderRun::take(const SuffixDecoder& step, size_t at, std::string_view token,
                      std::string& text) {
  State& state = states_[at];
  const std::string last = std::exchange(state.held, std::string(token));
  if (std::exchange(state.holds, true)) give(at, replaced(last, step.suffix, " "), text);
}

void DecoderRun::take(const ByteFallbackDecoder&, size_t at, std::string_view token,
                      std::string& text) {
  State& state = states_[at];
  if (const std::optional<uint8_t> byte = tokenize::byte_of_token(token)) {
    state.held.push_back(static_cast<char>(*byte));
    return;
  }
  if (!state.held.empty()) {
    std::string run;
    tokenize::append_byte_run(run, state.held);
    state.held.clear();
    give(at, run, text);
  }
  give(at, token, text);
}

void DecoderRun::take(const FuseDecoder&, size_t at, std::string_view token, std::string& text) {
  give(at, token, text);
}

// A part that is stripped whole leaves the start to the next part.
void DecoderRun::take(const StripDecoder& step, size_t at, std::string_view token,
                      std::string& text) {
  State& state = states_[at];
  const bool in_parts = decoder_->in_parts_ && at >= decoder_->one_token_from_;
  if (!in_parts) {
    state.stripped = 0;
    state.is_stripping = true;
  }
  while (state.is_stripping && state.stripped < step.start && !token.empty()) {
    if (!token.starts_with(step.content)) {
      state.is_stripping = false;
      break;
    }
    token.remove_prefix(step.content.size());
    ++state.stripped;
  }
  for (uint64_t i = 0; i < step.stop && !token.empty() && token.ends_with(step.content); ++i)
    token.remove_suffix(step.content.size());
  give(at, token, text);
}

void DecoderRun::take(const ReplaceDecoder& step, size_t at, std::string_view token,
                      std::string& text) {
  give(at, replaced(token, step.from, step.to), text);
}

void DecoderRun::take(const ReplaceMatchesDecoder& step, size_t at, std::string_view token,
                      std::string& text) {
  std::string changed;
  step.regex->append_replaced(token, step.to, changed);
  give(at, changed, text);
}

// The mark of the first piece goes; where extra spaces were removed, of each that leaves nothing.
void DecoderRun::take(const SentencePieceDecoder& step, size_t at, std::string_view token,
                      std::string& text) {
  State& state = states_[at];
  if (const auto byte = tokenize::byte_of_token(token);
      byte && step.byte_fallback && tokenize::byte_token(*byte) == token) {
    state.held += static_cast<char>(*byte);
    return;
  }
  end_bytes(at, text);
  std::string_view piece = token;
  const bool strips = step.add_dummy_prefix || step.remove_extra_whitespaces;
  const bool is_unknown = piece == step.unknown;
  if (!is_unknown && state.is_stripping && strips && piece.starts_with(tokenize::kSpaceMark)) {
    piece.remove_prefix(tokenize::kSpaceMark.size());
    state.holds = !step.remove_extra_whitespaces;
  }
  const std::string spelled =
      is_unknown ? step.unknown_surface : replaced(piece, tokenize::kSpaceMark, " ");
  state.given += spelled.size();
  give(at, spelled, text);
}

// Bytes held back become text, and a piece that follows is the first no more if one came before.
void DecoderRun::end_bytes(size_t at, std::string& text) {
  State& state = states_[at];
  std::string rest;
  if (std::holds_alternative<ByteLevelDecoder>(decoder_->steps_[at])) {
    characters::append_repaired_utf8(rest, state.held);
  } else {
    const std::string_view bytes = state.held;
    for (size_t begin = 0; begin < bytes.size();) {
      size_t length = 1;
      while (length <= 4 && begin + length <= bytes.size() &&
             characters::find_invalid_utf8(bytes.substr(begin, length)) != std::string_view::npos)
        ++length;
      const bool is_valid = length <= 4 && begin + length <= bytes.size();
      rest.append(is_valid ? bytes.substr(begin, length) : "\xEF\xBF\xBD");
      begin += is_valid ? length : 1;
    }
    state.given += rest.size();
    if (state.holds || state.given > 0) state.is_stripping = false;
    state.holds = false;
  }
  state.held.clear();
  if (!rest.empty()) give(at, rest, text);
}

void DecoderRun::take(const SpaceDecoder&, size_t at, std::string_view token, std::string& text) {
  give(at, states_[at].tokens > 0 ? " " + std::string(token) : std::string(token), text);
}

}  // namespace megalith::text
