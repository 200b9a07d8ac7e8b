// SPDX-License-Identifier: Apache-2.0
#include "generate/continuation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace megalith::generate {

namespace {

void check_beams(const GenerateOptions& o) {
  if (o.beams < 1 || o.beams > kMostBeams)
    throw UserError("--beams {} is not in [1, {}]", o.beams, kMostBeams);
  if (o.best < 1 || o.best > o.beams)
    throw UserError("--best {} is not in [1, {}]: --beams says how many texts there are", o.best,
                    o.beams);
  if (!(std::abs(o.length_penalty) <= 100))
    throw UserError("--length-penalty {} is not in [-100, 100]", o.length_penalty);
  if (o.beams == 1) {
    if (o.length_penalty != 1 || o.early_stopping != EarlyStopping::likely)
      throw UserError("--length-penalty and --early-stopping need --beams of 2 or more");
    return;
  }
  const SamplingOptions& s = o.sampling;
  if ((s.temperature != 0 && s.temperature != 1) || s.top_k > 0 || s.top_p < 1 || s.min_p > 0 ||
      s.typical_p < 1) {
    throw UserError(
        "--beams looks for the most likely text and draws nothing: leave --temperature, --top-k, "
        "--top-p, --min-p and --typical-p out");
  }
  if (!o.stop.empty()) throw UserError("--stop ends one text, and --beams writes several");
  if (o.lookup > 0 || o.draft > 0)
    throw UserError("guesses are for one text, and --beams writes several");
}

}  // namespace

void check(const GenerateOptions& options) {
  check(options.sampling);
  if (options.max_new_tokens < 0)
    throw UserError("--max-new-tokens {} is negative", options.max_new_tokens);
  if (options.min_tokens < 0) throw UserError("--min-tokens {} is negative", options.min_tokens);
  if (options.top_logprobs < 0 || options.top_logprobs > kMostLogprobs)
    throw UserError("--top-logprobs {} is not in [0, {}]", options.top_logprobs, kMostLogprobs);
  for (const auto& [name, count] :
       {std::pair{"--lookup", options.lookup}, {"draft tokens", options.draft}}) {
    if (count < 0 || count > kMostGuesses)
      throw UserError("{} {} is not in [0, {}]", name, count, kMostGuesses);
  }
  if (options.lookup > 0 && options.draft > 0)
    throw UserError("guesses come from --lookup or from a draft model, not both");
  check_beams(options);
}

Continuation::Continuation(const text::Tokenizer* tokenizer, const GenerateOptions& options,
                           std::span<const int32_t> before, int64_t most)
    : tokenizer_(tokenizer), options_(options), most_(std::min(most, options.max_new_tokens)) {
  if (tokenizer != nullptr) {
    decoder_.emplace(*tokenizer);
    for (const int32_t id : before) decoder_->push(id);
  }
  if (most_ <= 0) end("length");
}

void Continuation::push(const Choice& choice, std::vector<Choice> alternatives) {
  MEGA_CHECK(!has_ended_);
  if (!options_.ignore_eos &&
      std::ranges::find(options_.end_ids, choice.id) != options_.end_ids.end())
    return end("stop");
  result_.ids.push_back(choice.id);
  result_.logprobs.push_back(choice.logprob);
  if (options_.top_logprobs > 0) result_.top_logprobs.push_back(std::move(alternatives));
  if (decoder_) {
    const std::string piece = decoder_->push(choice.id);
    result_.text += piece;
    if (cut_at_stop(piece.size())) {
      decoder_.reset();
      return end("stop");
    }
  }
  if (std::ssize(result_.ids) == most_) end("length");
}

void Continuation::end(const char* reason) {
  has_ended_ = true;
  result_.finish_reason = reason;
  if (!decoder_) return;
  const std::string rest = decoder_->finish();
  result_.text += rest;
  cut_at_stop(rest.size());
}

/// Whether a stop text is complete with the last `added` bytes; the text then ends before it.
bool Continuation::cut_at_stop(size_t added) {
  const std::string& text = result_.text;
  if (count() <= options_.min_tokens) {
    free_ = text.size();
    return false;
  }
  size_t first = std::string::npos;
  for (const std::string& stop : options_.stop) {
    const size_t tail = std::min(added + stop.size(), text.size() - free_);
    if (!stop.empty()) first = std::min(first, text.find(stop, text.size() - tail));
  }
  if (first == std::string::npos) return false;
  result_.text.resize(first);
  return true;
}

/// Where the longest tail of the text begins that is a beginning of `stop`.
size_t Continuation::certain_before(const std::string& stop) const {
  const std::string& text = result_.text;
  for (size_t length = std::min(stop.size(), text.size() - free_); length > 0; --length) {
    if (text.ends_with(std::string_view(stop).substr(0, length))) return text.size() - length;
  }
  return text.size();
}

std::string_view Continuation::release() {
  size_t end = result_.text.size();
  if (!has_ended_)
    for (const std::string& stop : options_.stop) end = std::min(end, certain_before(stop));
  end = std::max(end, given_);
  const size_t from = std::exchange(given_, end);
  return std::string_view(result_.text).substr(from, end - from);
}

Generated Continuation::take() {
  MEGA_CHECK(has_ended_);
  return std::move(result_);
}

}  // namespace megalith::generate
