// SPDX-License-Identifier: Apache-2.0
#include "serve/engine_rank.h"

#include <algorithm>

#include "base/clock.h"

namespace megalith::serve {

EngineLoop::Rank::Rank(const Options& options, inference::InferenceEngine& engine,
                       inference::InferenceEngine* draft, const text::Tokenizer* tokenizer,
                       bool leads)
    : engine_(engine),
      pooling_(options.pooling),
      lookup_(options.lookup),
      draft_(options.draft),
      leads_(leads) {
  if (!options.writes) return;
  generate::BatchGenerator::Options made = options.generator;
  made.draft = draft;
  generator_.emplace(engine, tokenizer, made);
}

void EngineLoop::Rank::take(const Round& round) {
  for (const AdapterChange& change : round.adapters)
    if (change.place) adapters_[change.number] = change.place(engine_.model());
  for (const uint64_t ticket : round.cancelled) cancel(ticket);
  for (const auto& submission : round.submitted) {
    if (submission->readings.empty()) {
      submit(*submission);
    } else {
      read(*submission);
    }
  }
  for (const AdapterChange& change : round.adapters)
    if (!change.place) leaving_.push_back(change.number);
}

void EngineLoop::Rank::submit(const Submission& submission) {
  Request& request = requests_[submission.ticket];
  request.left = submission.sequences.size();
  request.adapter = submission.adapter;
  request.sequences.resize(submission.sequences.size());
  try {
    for (size_t i = 0; i < submission.sequences.size(); ++i) submit(submission, i, request);
  } catch (const UserError& error) {
    cancel(submission.ticket);
    refuse(submission.ticket, error.what());
  }
}

void EngineLoop::Rank::submit(const Submission& submission, size_t index, Request& request) {
  const protocols::PreparedSequence& prepared = submission.sequences[index];
  Sequence& sequence = request.sequences[index];
  const uint64_t ticket = submission.ticket;
  generate::Request asked{
      .prompt = prepared.prompt, .options = prepared.options, .client = submission.client};
  if (prepared.allowed) asked.allowed = prepared.allowed->clone();
  if (asked.options.beams == 1) {
    asked.options.lookup = lookup_;
    asked.options.draft = draft_;
  }
  if (submission.adapter != 0)
    asked.adapter = {adapters_.at(submission.adapter), submission.adapter};
  if (leads_) {
    asked.on_token = [this, ticket, index](const generate::TextToken& token) {
      events_.push_back({.kind = Event::Kind::token, .ticket = ticket, .sequence = index});
      events_.back().token = {token.choice,
                              {token.alternatives.begin(), token.alternatives.end()},
                              std::string(token.text)};
    };
  }
  const double waited = monotonic_seconds() - submission.begin;
  asked.on_end = [this, ticket, index, waited, &request, &sequence](generate::Generated result) {
    result.queue_seconds += waited;
    sequence.number = 0;
    if (--request.left == 0) over_.push_back(ticket);
    if (!leads_) return;
    sequence.written.result = std::move(result);
    events_.push_back({.kind = Event::Kind::ended, .ticket = ticket, .sequence = index});
    events_.back().written = std::move(sequence.written);
  };
  const auto number = generator_->submit(std::move(asked));
  // The loop's places are the generator's, so there is one.
  MEGA_CHECK(number.has_value(), "the generator's queue is full");
  sequence.number = *number;
}

void EngineLoop::Rank::read(const Submission& submission) {
  engine::ShardedModel& model = engine_.model();
  try {
    for (const inference::Reading& reading : submission.readings)
      inference::check_readable(engine_.spec(), reading);
    if (submission.adapter != 0) model.set_adapter(adapters_.at(submission.adapter).get());
    auto vectors = inference::SequenceReader(model).embed(submission.readings, pooling_);
    model.set_adapter(nullptr);
    if (!leads_) return;
    events_.push_back({.kind = Event::Kind::vectors, .ticket = submission.ticket});
    events_.back().vectors = std::move(vectors);
  } catch (const UserError& error) {
    model.set_adapter(nullptr);
    refuse(submission.ticket, error.what());
  }
}

void EngineLoop::Rank::refuse(uint64_t ticket, const std::string& message) {
  if (!leads_) return;
  events_.push_back({.kind = Event::Kind::refused, .ticket = ticket});
  events_.back().message = message;
}

void EngineLoop::Rank::cancel(uint64_t ticket) {
  const auto at = requests_.find(ticket);
  if (at == requests_.end()) return;
  for (const Sequence& sequence : at->second.sequences)
    if (sequence.number != 0) generator_->cancel(sequence.number);
  requests_.erase(at);
}

/// Adapters that are to leave and that no request has.
void EngineLoop::Rank::let_go() {
  std::erase_if(leaving_, [&](uint64_t number) {
    const auto has_it = [&](const auto& each) { return each.second.adapter == number; };
    if (std::ranges::any_of(requests_, has_it)) return false;
    adapters_.erase(number);
    if (leads_) events_.push_back({.kind = Event::Kind::left, .ticket = number});
    return true;
  });
}

void EngineLoop::Rank::step() {
  if (generator_) {
    generator_->step();
    for (const uint64_t ticket : over_) requests_.erase(ticket);
    over_.clear();
  }
  let_go();
}

std::vector<uint64_t> EngineLoop::Rank::tickets() const {
  std::vector<uint64_t> tickets;
  for (const auto& [ticket, request] : requests_) tickets.push_back(ticket);
  return tickets;
}

}  // namespace megalith::serve
