// SPDX-License-Identifier: Apache-2.0
#include "generate/beam_writing.h"

#include <algorithm>

#include "base/check.h"

namespace megalith::generate {

BeamWriting::BeamWriting(Request request, const WritingModel& model,
                         const text::Tokenizer* tokenizer)
    : Writing(std::move(request), model),
      tokenizer_(tokenizer),
      search_(options(), most()),
      states_(1) {
  sequence().width = options().beams;
  if (this->request().allowed) states_.front() = this->request().allowed->clone();
}

/// The best candidates of a line.
void BeamWriting::see_last(const Scheduler::Part& part, int64_t, std::span<const float> logits,
                           Told& told) {
  const Written written = written_of(part.line().ids);
  const auto count = std::ssize(written.ids) - static_cast<int64_t>(prompt());
  std::vector<uint64_t> bits;
  std::optional<Choice> end;
  const NextToken next = next_token(states_[part.index].get(), count, bits, end);
  std::vector<ScoredChoice> best;
  if (!end) {
    best = best_tokens(logits, search_.candidates(), options().sampling, written, next);
  } else if (end->id == kEnd) {
    best = {{*end, 0}};
  }
  told.put(static_cast<double>(best.size()));
  for (const ScoredChoice& one : best) {
    told.put(one.choice);
    told.put(one.score);
  }
  if (options().top_logprobs > 0)
    told.put(most_likely_tokens(logits, options().top_logprobs, drawable()));
}

void BeamWriting::take_last(const Scheduler::Part& part, Told& told) {
  if (part.index == 0) candidates_.clear();
  const auto first = std::ssize(candidates_);
  for (auto count = static_cast<int64_t>(told.number()); count > 0; --count) {
    const Choice choice = told.choice();
    candidates_.push_back({part.index, choice, told.number()});
  }
  if (options().top_logprobs == 0) return;
  const std::vector<Choice> alternatives = told.choices();
  for (auto one = candidates_.begin() + first; one != candidates_.end(); ++one)
    one->alternatives = alternatives;
}

bool BeamWriting::write(Scheduler& scheduler) {
  has_written();
  if (search_.has_ended()) return true;  // no token was wanted
  const std::vector<size_t> parents = search_.advance(std::move(candidates_));
  if (search_.has_ended()) return true;
  scheduler.branch(sequence(), parents);
  std::vector<std::unique_ptr<TokenConstraint>> states(parents.size());
  for (size_t i = 0; i < parents.size(); ++i) {
    const int32_t id = search_.beams()[i].tokens.back().id;
    sequence().line(i).ids.push_back(id);
    if (states_[parents[i]] == nullptr) continue;
    states[i] = states_[parents[i]]->clone();
    states[i]->accept(id);
  }
  states_ = std::move(states);
  return false;
}

Generated BeamWriting::text_of(const BeamSearch::Beam& beam, bool tells) {
  Continuation text(tokenizer_, options(), before(), most());
  for (size_t i = 0; i < beam.tokens.size() && !text.has_ended(); ++i) {
    const int64_t count = text.count();
    text.push(beam.tokens[i], beam.alternatives[i]);
    const std::string_view piece = text.release();
    if (tells && text.count() > count && request().on_token)
      request().on_token({beam.tokens[i], beam.alternatives[i], piece});
    if (tells && !piece.empty() && request().on_text) request().on_text(piece);
  }
  if (!text.has_ended()) {
    text.stop("stop");
    const std::string_view piece = text.release();
    if (tells && !piece.empty() && request().on_text) request().on_text(piece);
  }
  Generated result = text.take();
  result.score = beam.score;
  return result;
}

Generated BeamWriting::result() {
  const std::vector<BeamSearch::Beam> best = search_.best();
  Generated result;
  if (best.empty()) {
    result.finish_reason = "error";
  } else {
    result = text_of(best.front(), true);
  }
  for (size_t i = 1; i < best.size(); ++i) result.others.push_back(text_of(best[i], false));
  complete(result);
  return result;
}

}  // namespace megalith::generate
