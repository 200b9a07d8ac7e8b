// SPDX-License-Identifier: Apache-2.0
#include "generate/generator.h"

#include <algorithm>

#include "base/clock.h"

namespace megalith::generate {
namespace {

/// Collects text, finds stop texts, and holds back what could still become one.
class StopFinder {
 public:
  explicit StopFinder(const std::vector<std::string>& stops) : stops_(stops) {}

  /// True when a stop text is complete; `text()` then ends before it.
  bool push(std::string_view piece) {
    text_ += piece;
    size_t first = std::string::npos;
    for (const std::string& stop : stops_) {
      const size_t from = text_.size() >= piece.size() + stop.size()
                              ? text_.size() - piece.size() - stop.size()
                              : 0;
      if (!stop.empty()) first = std::min(first, text_.find(stop, from));
    }
    if (first == std::string::npos) return false;
    text_.resize(first);
    return true;
  }
  /// What is certain and was not given yet; `all` gives the rest.
  std::string_view release(bool all) {
    size_t end = text_.size();
    if (!all) {
      for (const std::string& stop : stops_) end = std::min(end, certain_before(stop));
    }
    end = std::max(end, given_);
    const std::string_view piece = std::string_view(text_).substr(given_, end - given_);
    given_ = end;
    return piece;
  }
  const std::string& text() const { return text_; }

 private:
  /// Where the longest tail of the text begins that is a beginning of `stop`.
  size_t certain_before(const std::string& stop) const {
    for (size_t length = std::min(stop.size(), text_.size()); length > 0; --length) {
      if (text_.ends_with(std::string_view(stop).substr(0, length))) return text_.size() - length;
    }
    return text_.size();
  }
  const std::vector<std::string>& stops_;
  std::string text_;
  size_t given_ = 0;
};

/// The last stage has the logits and draws; all ranks learn what.
Choice choose_on_last_stage(engine::InferenceEngine& model, std::span<const float> logits,
                            size_t drawable, const SamplingOptions& sampling, int64_t position) {
  std::vector<double> drawn;
  if (!logits.empty()) {
    const Choice choice = choose_token(logits.first(drawable), sampling, position);
    drawn = {static_cast<double>(choice.id), choice.logprob};
  }
  drawn = model.from_last_stage(drawn);
  return {static_cast<int32_t>(drawn.at(0)), drawn.at(1)};
}

}  // namespace

Generated generate(engine::InferenceEngine& model, const text::Tokenizer* tokenizer,
                   std::span<const int32_t> prompt_ids, const GenerateOptions& options,
                   const OnText& on_text) {
  check(options.sampling);
  if (options.max_new_tokens < 0)
    throw UserError("--max-new-tokens {} is negative", options.max_new_tokens);
  Generated result;
  result.finish_reason = "length";
  StopFinder finder(options.stop);
  std::optional<text::StreamDecoder> decoder;
  if (tokenizer != nullptr) {
    decoder.emplace(*tokenizer);
    // The text goes on from the prompt's, or begins where an encoder has read that.
    if (!model.spec().is_encoder_decoder())
      for (const int32_t id : prompt_ids) decoder->push(id);
  }
  const auto give = [&](bool all) {
    const std::string_view piece = finder.release(all);
    if (on_text && !piece.empty()) on_text(piece);
  };

  const double begin = monotonic_seconds();
  auto [cache, ids] = model.begin(prompt_ids, options.max_new_tokens);
  std::vector<float> logits = model.extend(cache, ids);
  const double decode_begin = monotonic_seconds();
  result.prompt_seconds = decode_begin - begin;
  // The token chosen at the last position of the context needs no place in the cache.
  const int64_t begun = std::ssize(ids);
  const int64_t most = std::min(options.max_new_tokens, model.spec().context - begun + 1);
  // A model's vocabulary may be larger than the tokenizer's; what has no text is not drawn.
  const int64_t vocab = model.spec().vocab;
  const auto drawable =
      static_cast<size_t>(tokenizer != nullptr ? std::min(vocab, tokenizer->vocab_size()) : vocab);
  bool stop_text = false;
  for (int64_t n = 0; n < most; ++n) {
    const Choice choice = choose_on_last_stage(model, std::span<const float>(logits), drawable,
                                               options.sampling, begun + n);
    if (std::ranges::find(options.end_ids, choice.id) != options.end_ids.end()) {
      result.finish_reason = "stop";
      break;
    }
    result.ids.push_back(choice.id);
    result.logprobs.push_back(choice.logprob);
    if (decoder && finder.push(decoder->push(choice.id))) {
      result.finish_reason = "stop";
      stop_text = true;
      break;
    }
    give(false);
    if (n + 1 < most) logits = model.extend(cache, std::span(&choice.id, 1));
  }
  result.decode_seconds = monotonic_seconds() - decode_begin;
  if (decoder && !stop_text) finder.push(decoder->finish());
  give(true);
  result.text = finder.text();
  return result;
}

}  // namespace megalith::generate
