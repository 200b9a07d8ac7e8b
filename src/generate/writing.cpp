// SPDX-License-Identifier: Apache-2.0
#include "generate/writing.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/clock.h"
#include "engine/inference_engine.h"

namespace megalith::generate {
namespace {

/// In place of a token: the text ends without one, as it may, or because nothing may come.
constexpr int32_t kEnd = -1, kNothing = -2;

}  // namespace

void Told::put(const Choice& choice, std::vector<double>& numbers) {
  numbers.insert(numbers.end(), {static_cast<double>(choice.id), choice.logprob});
}

Choice Told::choice() {
  const auto id = static_cast<int32_t>(number());
  return {id, number()};
}

std::vector<Choice> Told::choices(int64_t count) {
  std::vector<Choice> choices;
  for (; count > 0; --count) choices.push_back(choice());
  return choices;
}

Writing::Writing(Request request, const models::ModelSpec& spec, const text::Tokenizer* tokenizer,
                 size_t drawable)
    : request_(std::move(request)), drawable_(drawable), begin_(monotonic_seconds()) {
  const GenerateOptions& options = request_.options;
  const std::vector<int32_t>& prompt = request_.prompt;
  check(options);
  engine::check_ids(spec, prompt, spec.context);
  sequence_.client = request_.client;
  const bool reads = spec.is_encoder_decoder();
  if (reads && options.prompt_logprobs) {
    throw UserError(
        "log-probabilities of the prompt are of what the text goes on from, and an encoder reads "
        "this model's prompt; score the pair instead");
  }
  if (reads) {
    sequence_.ids = {narrow<int32_t>(spec.decoder_start)};
    sequence_.memory = std::ssize(prompt);
  } else {
    sequence_.ids = prompt;
  }
  prompt_ = sequence_.ids.size();
  // The token chosen at the last position of the context needs no place among the blocks.
  const int64_t begun = std::ssize(sequence_.ids), room = spec.context - begun + 1;
  const int64_t most = std::min(options.max_new_tokens, room);
  sequence_.most = begun + std::max<int64_t>(most - 1, 0);
  if (options.prompt_logprobs && prompt_ > 1) sequence_.may_find = 0;
  reach_ = std::min(begun + std::min(options.max_new_tokens, spec.context), spec.context);
  text_.emplace(tokenizer, options, reads ? std::span<const int32_t>() : prompt, most);
}

int64_t Writing::asked_of_prompt(const Scheduler::Part& part) const {
  if (!request_.options.prompt_logprobs) return 0;
  const int64_t first = sequence_.past, last = std::ssize(request_.prompt) - 1;
  const int64_t count = std::min(part.count, last - first);
  return first + count > std::ssize(prompt_logprobs_) ? count : 0;
}

bool Writing::wants_alternatives(const Scheduler::Part& part) const {
  return request_.options.top_logprobs > 0 && asked_of_prompt(part) > 0;
}

engine::SequenceRows Writing::rows(const Scheduler::Part& part) const {
  const auto ids = std::span<const int32_t>(sequence_.ids);
  const auto first = static_cast<size_t>(sequence_.past);
  engine::SequenceRows rows{.ids = ids.subspan(first, static_cast<size_t>(part.count)),
                            .past = sequence_.past,
                            .reach = reach_,
                            .blocks = &sequence_.held.tables(),
                            .memory = sequence_.memory,
                            .num_logits = part.is_last() ? 1 : 0};
  if (wants_alternatives(part)) rows.num_logits = part.count;
  if (const int64_t count = asked_of_prompt(part); count > 0)
    rows.targets = ids.subspan(first + 1, static_cast<size_t>(count));
  return rows;
}

/// Whether what follows a token of the part is the prompt's, and not known yet.
bool Writing::is_new(const Scheduler::Part& part, int64_t index) const {
  return index < asked_of_prompt(part) && sequence_.past + index >= std::ssize(prompt_logprobs_);
}

void Writing::see(const Scheduler::Part& part, int64_t index, std::span<const float> logits,
                  std::vector<double>& told) const {
  const int64_t alternatives = request_.options.top_logprobs;
  if (wants_alternatives(part) && is_new(part, index)) {
    for (const Choice& choice : most_likely_tokens(logits, alternatives, drawable_))
      Told::put(choice, told);
  }
  if (!part.is_last() || index + 1 != part.count) return;
  const auto drawable = logits.first(drawable_);
  Told::put(choose(drawable), told);
  if (alternatives == 0) return;
  for (const Choice& choice : most_likely_tokens(drawable, alternatives, drawable_))
    Told::put(choice, told);
}

Choice Writing::choose(std::span<const float> logits) const {
  const GenerateOptions& options = request_.options;
  NextToken next;
  std::vector<uint64_t> allowed;
  if (!options.ignore_eos && text_->count() < options.min_tokens) next.banned = options.end_ids;
  if (request_.allowed && !text_->has_ended()) {
    const bool can_end = request_.allowed->can_end();
    allowed.resize((drawable_ + 63) / 64);
    request_.allowed->mask(allowed);
    for (const int32_t id : options.end_ids) {
      if (options.ignore_eos || id < 0 || static_cast<size_t>(id) >= drawable_) continue;
      const uint64_t bit = uint64_t{1} << (id % 64);
      uint64_t& word = allowed[static_cast<size_t>(id / 64)];
      word = can_end ? word | bit : word & ~bit;
    }
    const auto is_empty = [](uint64_t word) { return word == 0; };
    if (std::ranges::all_of(allowed, is_empty)) return {can_end ? kEnd : kNothing, 0};
    next.allowed = allowed;
  }
  return choose_token(logits, options.sampling, {sequence_.ids, prompt_}, next);
}

void Writing::take(const Scheduler::Part& part, Told& told, std::span<const double> logprobs) {
  const int64_t count =
      std::min<int64_t>(request_.options.top_logprobs, static_cast<int64_t>(drawable_));
  const bool is_last = part.is_last();
  const int64_t asked = asked_of_prompt(part);
  const int64_t known = std::max<int64_t>(std::ssize(prompt_logprobs_) - sequence_.past, 0);
  for (int64_t i = known; i < asked; ++i) {
    if (count > 0) prompt_alternatives_.push_back(told.choices(count));
    prompt_logprobs_.push_back(logprobs[static_cast<size_t>(i)]);
  }
  // A beginning that is known need not be read again.
  if (asked > 0) {
    const bool has_all = prompt_logprobs_.size() + 1 == request_.prompt.size();
    sequence_.may_find = has_all ? Sequence::kAll : std::ssize(prompt_logprobs_);
  }
  if (!is_last) return;
  chosen_ = told.choice();
  alternatives_ = told.choices(count);
}

bool Writing::write() {
  if (first_token_ == 0) first_token_ = monotonic_seconds();
  const int64_t before = text_->count();
  if (chosen_.id < 0) {
    text_->stop(chosen_.id == kEnd ? "stop" : "error");
  } else if (!text_->has_ended()) {
    text_->push(chosen_, alternatives_);
  }
  const std::string_view piece = text_->release();
  if (text_->count() > before) {
    if (request_.allowed) request_.allowed->accept(chosen_.id);
    if (request_.on_token) request_.on_token({chosen_, alternatives_, piece});
  }
  if (!piece.empty() && request_.on_text) request_.on_text(piece);
  if (!text_->has_ended()) sequence_.ids.push_back(chosen_.id);
  return text_->has_ended();
}

Generated Writing::result() {
  Generated result = text_->take();
  result.prompt_logprobs = std::move(prompt_logprobs_);
  result.prompt_top_logprobs = std::move(prompt_alternatives_);
  result.prompt_seconds = first_token_ - begin_;
  result.decode_seconds = monotonic_seconds() - first_token_;
  return result;
}

}  // namespace megalith::generate
