// SPDX-License-Identifier: Apache-2.0
#include "generate/text_writing.h"

#include <algorithm>

#include "base/check.h"
#include "generate/look_up.h"

namespace megalith::generate {

TextWriting::TextWriting(Request request, const WritingModel& model,
                         const text::Tokenizer* tokenizer)
    : Writing(std::move(request), model), text_(tokenizer, options(), before(), most()) {}

/// Behind the tokens of seen_.
Choice TextWriting::choose(std::span<const float> logits) const {
  const Written written = written_of(seen_);
  const auto count = std::ssize(written.ids) - static_cast<int64_t>(prompt());
  std::vector<uint64_t> bits;
  std::optional<Choice> end;
  const TokenConstraint* const constraint = text_.has_ended() ? nullptr : seen_state_.get();
  const NextToken next = next_token(constraint, count, bits, end);
  return end ? *end : choose_token(logits, options().sampling, written, next);
}

void TextWriting::see_last(const Scheduler::Part& part, int64_t ahead,
                           std::span<const float> logits, Told& told) {
  const Line& line = part.line();
  if (ahead == 0) {
    seen_ = line.ids;
    was_wrong_ = false;
    if (request().allowed) seen_state_ = request().allowed->clone();
  }
  if (was_wrong_) return;
  const Choice choice = choose(logits);
  told.put(choice);
  if (const int64_t count = options().top_logprobs; count > 0)
    told.put(most_likely_tokens(logits, count, drawable()));
  const auto at = static_cast<size_t>(ahead);
  was_wrong_ = at >= line.proposed.size() || line.proposed[at] != choice.id;
  if (was_wrong_) return;
  seen_.push_back(choice.id);
  if (seen_state_) seen_state_->accept(choice.id);
}

void TextWriting::take_last(const Scheduler::Part& part, Told& told) {
  const Line& line = part.line();
  const int64_t guesses = part.count - line.rest();
  chosen_.clear();
  alternatives_.clear();
  for (size_t i = 0; std::cmp_less_equal(i, guesses); ++i) {
    chosen_.push_back(told.choice());
    alternatives_.push_back(options().top_logprobs > 0 ? told.choices() : std::vector<Choice>());
    if (std::cmp_less(i, guesses) && line.proposed[i] != chosen_.back().id) break;
  }
  speculated_.guesses += guesses;
  speculated_.right += std::ssize(chosen_) - 1;
}

/// Whether the text has ended with the token.
bool TextWriting::push(size_t at) {
  const Choice& choice = chosen_[at];
  const int64_t before = text_.count();
  if (choice.id < 0) {
    text_.stop(choice.id == kEnd ? "stop" : "error");
  } else if (!text_.has_ended()) {
    text_.push(choice, alternatives_[at]);
  }
  const std::string_view piece = text_.release();
  if (text_.count() > before) {
    if (request().allowed) request().allowed->accept(choice.id);
    if (request().on_token) request().on_token({choice, alternatives_[at], piece});
  }
  if (!piece.empty() && request().on_text) request().on_text(piece);
  return text_.has_ended();
}

bool TextWriting::write(Scheduler& scheduler) {
  has_written();
  sequence().proposed.clear();
  for (size_t i = 0; i < chosen_.size(); ++i) {
    if (push(i)) return true;
    sequence().ids.push_back(chosen_[i].id);
  }
  if (chosen_.size() > 1) scheduler.advance_proposed(sequence(), std::ssize(chosen_) - 1);
  if (options().lookup > 0) look_up();
  return false;
}

/// The last token of all is chosen, and not read.
int64_t TextWriting::may_guess(int64_t count) const {
  return std::min(count, most() - text_.count() - 1);
}

void TextWriting::look_up() {
  const int64_t count = may_guess(options().lookup);
  // A text often repeats its prompt, which an encoder may have read.
  const std::span<const int32_t> read = prompt_text(),
                                 written = written_of(sequence().ids).ids.subspan(prompt());
  std::vector<int32_t> known(read.begin(), read.end());
  known.insert(known.end(), written.begin(), written.end());
  sequence().proposed = look_up_continuation(known, count);
}

Generated TextWriting::result() {
  Generated result = text_.take();
  result.speculated = speculated_;
  complete(result);
  return result;
}

}  // namespace megalith::generate
