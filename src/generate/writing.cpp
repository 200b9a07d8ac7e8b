// SPDX-License-Identifier: Apache-2.0
#include "generate/writing.h"

#include <algorithm>

#include "base/check.h"
#include "base/clock.h"
#include "generate/beam_writing.h"
#include "generate/text_writing.h"
#include "inference/inference_engine.h"

namespace megalith::generate {
namespace {

/// UserError for options that cannot be used with virtual tokens inside a prompt.
void check_in_text(const GenerateOptions& options) {
  if (options.prompt_logprobs)
    throw UserError(
        "log-probabilities of a prompt with virtual tokens in it are not supported; score the text "
        "instead");
  if (options.draft > 0)
    throw UserError("a draft model does not have the virtual tokens of this prompt; leave it out");
}

}  // namespace

Writing::Writing(Request request, const WritingModel& model)
    : request_(std::move(request)),
      reads_(model.spec.is_encoder_decoder()),
      has_text_(model.tokens_in_text > 0),
      drawable_(model.drawable),
      virtual_(reads_ ? 0 : static_cast<size_t>(model.virtual_tokens)),
      begin_(monotonic_seconds()) {
  const models::ModelSpec& spec = model.spec;
  const std::vector<int32_t>& prompt = request_.prompt;
  check(options());
  inference::check_ids(spec, prompt, spec.context - model.virtual_tokens, model.tokens_in_text);
  if (has_text_) {
    check_in_text(options());
    text_ = layers::without_virtual(spec.vocab, prompt);
  }
  sequence_.client = request_.client;
  MEGA_CHECK_EQ(request_.adapter.adapter != nullptr, request_.adapter.number != 0);
  sequence_.salt = request_.adapter.number;
  if (reads_ && options().prompt_logprobs) {
    throw UserError(
        "log-probabilities of the prompt are of what the text goes on from, and an encoder reads "
        "this model's prompt; score the pair instead");
  }
  if (reads_) {
    sequence_.ids = {narrow<int32_t>(spec.decoder_start)};
    sequence_.memory = model.virtual_tokens + std::ssize(prompt);
  } else {
    sequence_.ids = layers::virtual_ids(spec.vocab, model.virtual_tokens);
    sequence_.ids.insert(sequence_.ids.end(), prompt.begin(), prompt.end());
  }
  prompt_ = sequence_.ids.size() - virtual_;
  // The token chosen at the last position of the context needs no place among the blocks.
  const int64_t begun = std::ssize(sequence_.ids), room = spec.context - begun + 1;
  most_ = std::min(options().max_new_tokens, room);
  sequence_.most = begun + std::max<int64_t>(most_ - 1, 0);
  if (options().prompt_logprobs && prompt_ > 1) sequence_.may_find = model.virtual_tokens;
  reach_ = std::min(begun + std::min(options().max_new_tokens, spec.context), spec.context);
}

std::span<const int32_t> Writing::before() const {
  return reads_ ? std::span<const int32_t>() : prompt_text();
}

int64_t Writing::asked_of_prompt(const Scheduler::Part& part) const {
  if (!options().prompt_logprobs || part.index > 0) return 0;
  const int64_t end = std::min(text_past() + part.count, std::ssize(request_.prompt) - 1);
  return end > std::ssize(prompt_logprobs_) ? end - std::max<int64_t>(text_past(), 0) : 0;
}

bool Writing::wants_alternatives(const Scheduler::Part& part) const {
  return options().top_logprobs > 0 && asked_of_prompt(part) > 0;
}

inference::SequenceRows Writing::rows(const Scheduler::Part& part) {
  if (first_pass_ == 0) first_pass_ = monotonic_seconds();
  const Line& line = part.line();
  std::span<const int32_t> ids = line.ids;
  const auto first = static_cast<size_t>(line.past), count = static_cast<size_t>(part.count);
  if (const int64_t more = part.count - line.rest(); more > 0) {
    with_proposed_ = line.ids;
    with_proposed_.insert(with_proposed_.end(), line.proposed.begin(),
                          line.proposed.begin() + more);
    ids = with_proposed_;
  }
  inference::SequenceRows rows{.ids = ids.subspan(first, count),
                               .past = line.past,
                               .reach = reach_,
                               .blocks = &line.held.tables(),
                               .memory = sequence_.memory,
                               .num_logits = part.is_last() ? part.count - line.rest() + 1 : 0,
                               .adapter = request_.adapter.adapter.get()};
  if (wants_alternatives(part)) rows.num_logits = part.count;
  if (const int64_t asked = asked_of_prompt(part); asked > 0) {
    rows.first_target = std::max<int64_t>(-text_past(), 0);
    rows.targets =
        ids.subspan(first + static_cast<size_t>(rows.first_target) + 1, static_cast<size_t>(asked));
  }
  return rows;
}

void Writing::see(const Scheduler::Part& part, int64_t index, std::span<const float> logits,
                  Told& told) {
  // What follows this token is the prompt's, and not known yet.
  const int64_t at = text_past() + index;
  const bool is_new = at < std::max<int64_t>(text_past(), 0) + asked_of_prompt(part) &&
                      at >= std::ssize(prompt_logprobs_);
  if (is_new && wants_alternatives(part))
    told.put(most_likely_tokens(logits, options().top_logprobs, drawable_));
  const int64_t ahead = index + 1 - part.line().rest();
  if (ahead >= 0) see_last(part, ahead, logits.first(drawable_), told);
}

void Writing::take(const Scheduler::Part& part, Told& told, std::span<const double> logprobs) {
  const bool is_last = part.is_last(), has_alternatives = wants_alternatives(part);
  const int64_t asked = asked_of_prompt(part);
  const int64_t first = std::max<int64_t>(text_past(), 0);
  const int64_t known = std::max<int64_t>(std::ssize(prompt_logprobs_) - first, 0);
  for (int64_t i = known; i < asked; ++i) {
    const double logprob = logprobs[static_cast<size_t>(i)];
    prompt_logprobs_.push_back(logprob);
    if (!has_alternatives) continue;
    // The pass's loss and the last stage's sum round differently: one number for one token.
    const int32_t token = request_.prompt[static_cast<size_t>(first + i + 1)];
    std::vector<Choice>& choices = prompt_alternatives_.emplace_back(told.choices());
    const auto same = std::ranges::find(choices, token, &Choice::id);
    if (same != choices.end()) same->logprob = logprob;
  }
  // A beginning whose log-probabilities are known need not be read again.
  if (asked > 0) {
    const bool has_all = prompt_logprobs_.size() + 1 == request_.prompt.size();
    sequence_.may_find =
        has_all ? Sequence::kAll : static_cast<int64_t>(virtual_) + std::ssize(prompt_logprobs_);
  }
  if (is_last) take_last(part, told);
}

NextToken Writing::next_token(const TokenConstraint* constraint, int64_t count,
                              std::vector<uint64_t>& bits, std::optional<Choice>& end) const {
  NextToken next;
  if (!options().ignore_eos && count < options().min_tokens) next.banned = options().end_ids;
  if (constraint == nullptr) return next;
  const bool can_end = constraint->can_end();
  bits.assign((drawable_ + 63) / 64, 0);
  constraint->mask(bits);
  for (const int32_t id : options().end_ids) {
    if (options().ignore_eos || id < 0 || static_cast<size_t>(id) >= drawable_) continue;
    const uint64_t bit = uint64_t{1} << (id % 64);
    uint64_t& word = bits[static_cast<size_t>(id / 64)];
    word = can_end ? word | bit : word & ~bit;
  }
  const auto is_empty = [](uint64_t word) { return word == 0; };
  if (std::ranges::all_of(bits, is_empty)) end = Choice{can_end ? kEnd : kNothing, 0};
  next.allowed = bits;
  return next;
}

void Writing::has_written() {
  if (first_token_ == 0) first_token_ = monotonic_seconds();
}

void Writing::complete(Generated& result) {
  result.prompt_logprobs = std::move(prompt_logprobs_);
  result.prompt_top_logprobs = std::move(prompt_alternatives_);
  result.queue_seconds = first_pass_ - begin_;
  result.prompt_seconds = first_token_ - first_pass_;
  result.decode_seconds = monotonic_seconds() - first_token_;
}

std::unique_ptr<Writing> begin_writing(Request request, const WritingModel& model,
                                       const text::Tokenizer* tokenizer) {
  if (request.options.beams > 1)
    return std::make_unique<BeamWriting>(std::move(request), model, tokenizer);
  return std::make_unique<TextWriting>(std::move(request), model, tokenizer);
}

}  // namespace megalith::generate
