// SPDX-License-Identifier: Apache-2.0
#include "serve/engine_loop.h"

#include <algorithm>

#include "base/clock.h"
#include "serve/engine_rank.h"

namespace megalith::serve {
namespace {

EngineLoop::Options with_places(EngineLoop::Options options) {
  // All that are let in may wait: how many those are is the loop's to count.
  generate::Scheduler::Limits& limits = options.generator.limits;
  limits.waiting = limits.sequences + options.most_queued;
  return options;
}

}  // namespace

EngineLoop::EngineLoop(Options options)
    : options_(with_places(std::move(options))), rounds_(static_cast<size_t>(options_.followers)) {}

int64_t EngineLoop::most_sequences() const { return options_.generator.limits.waiting; }

std::optional<uint64_t> EngineLoop::put(std::shared_ptr<Submission> submission, int64_t places,
                                        const std::string& adapter) {
  const std::lock_guard lock(mutex_);
  if (num_places_ + places > most_sequences() || stops_) return {};
  if (!adapter.empty()) {
    const LoadedAdapter& loaded = adapters_.at(adapter);
    MEGA_CHECK(!loaded.leaves, "{} is being unloaded", adapter);
    submission->adapter = loaded.number;
  }
  num_places_ += places;
  submission->ticket = ++last_ticket_;
  submission->begin = monotonic_seconds();
  places_[last_ticket_] = places;
  submitted_.push_back(std::move(submission));
  mail_.notify_all();
  return last_ticket_;
}

std::optional<uint64_t> EngineLoop::submit(std::vector<protocols::PreparedSequence> sequences,
                                           std::string client, const std::string& adapter) {
  const auto places = static_cast<int64_t>(sequences.size());
  auto submission = std::make_shared<Submission>();
  submission->sequences = std::move(sequences);
  submission->client = std::move(client);
  return put(std::move(submission), places, adapter);
}

std::optional<uint64_t> EngineLoop::submit_reading(std::vector<inference::Reading> readings,
                                                   const std::string& adapter) {
  auto submission = std::make_shared<Submission>();
  submission->readings = std::move(readings);
  return put(std::move(submission), 1, adapter);
}

void EngineLoop::load(const std::string& adapter, PlaceAdapter place) {
  const std::lock_guard lock(mutex_);
  MEGA_CHECK(!adapters_.contains(adapter), "{} is loaded already", adapter);
  adapters_[adapter] = {++last_adapter_, false};
  changes_.push_back({last_adapter_, std::move(place)});
  mail_.notify_all();
}

uint64_t EngineLoop::unload(const std::string& adapter) {
  const std::lock_guard lock(mutex_);
  LoadedAdapter& loaded = adapters_.at(adapter);
  MEGA_CHECK(!loaded.leaves, "{} is being unloaded", adapter);
  loaded.leaves = true;
  changes_.push_back({loaded.number, {}});
  mail_.notify_all();
  return loaded.number;
}

AdapterState EngineLoop::adapter_state(const std::string& adapter) const {
  const std::lock_guard lock(mutex_);
  const auto at = adapters_.find(adapter);
  if (at == adapters_.end()) return AdapterState::absent;
  return at->second.leaves ? AdapterState::leaving : AdapterState::ready;
}

void EngineLoop::cancel(uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  const auto at = places_.find(ticket);
  if (at == places_.end()) return;
  num_places_ -= at->second;
  places_.erase(at);
  // One that the engine has not seen yet it never sees.
  if (std::erase_if(submitted_, [&](const auto& one) { return one->ticket == ticket; }) == 0)
    cancelled_.push_back(ticket);
  mail_.notify_all();
}

void EngineLoop::stop() {
  const std::lock_guard lock(mutex_);
  stops_ = true;
  mail_.notify_all();
}

void EngineLoop::end_followers() {
  stop();
  next_round(false);  // the last one that they get
}

EngineState EngineLoop::state() const {
  const std::lock_guard lock(mutex_);
  EngineState state = state_;
  for (const auto& one : submitted_) state.waiting += std::ssize(one->sequences);
  return state;
}

std::shared_ptr<const EngineLoop::Round> EngineLoop::next_round(bool is_idle) {
  std::unique_lock lock(mutex_);
  mail_.wait(lock, [&] {
    return !is_idle || stops_ || !submitted_.empty() || !cancelled_.empty() || !changes_.empty();
  });
  auto round = std::make_shared<Round>();
  round->cancelled.swap(cancelled_);
  round->submitted.swap(submitted_);
  round->adapters.swap(changes_);
  round->stops = stops_;
  for (auto& rounds : rounds_) rounds.push_back(round);
  if (!rounds_.empty()) mail_.notify_all();
  return round;
}

void EngineLoop::begin_pass(const Round& round) {
  const std::lock_guard lock(mutex_);
  state_.pass_begin = monotonic_seconds();
  ++state_.passes;
  for (const auto& submission : round.submitted) state_.tickets.push_back(submission->ticket);
}

void EngineLoop::end_pass(const Rank& rank) {
  const std::lock_guard lock(mutex_);
  state_.pass_begin = 0;
  state_.tickets = rank.tickets();
  const generate::BatchGenerator* const generator = rank.generator();
  if (generator == nullptr) return;
  state_.running = generator->scheduler().running();
  state_.waiting = generator->scheduler().waiting();
  state_.preemptions = generator->scheduler().preemptions();
  state_.prefix_queries = generator->scheduler().prefix_queries();
  state_.prefix_hits = generator->scheduler().prefix_hits();
  if (const int64_t tokens = generator->scheduler().planned_tokens(); tokens > 0)
    state_.pass_tokens.add(static_cast<double>(tokens));
  state_.blocks = state_.blocks_in_use = 0;
  state_.cache_usage = 0;
  for (size_t g = 0; g < options_.generator.blocks.size(); ++g) {
    const int64_t count = generator->blocks().count(g), used = generator->blocks().in_use(g);
    state_.blocks += count;
    state_.blocks_in_use += used;
    state_.cache_usage =
        std::max(state_.cache_usage,
                 static_cast<double>(used) / static_cast<double>(std::max<int64_t>(count, 1)));
  }
}

/// Places of what has ended are for others.
void EngineLoop::free_places(const std::vector<Event>& events) {
  const std::lock_guard lock(mutex_);
  for (const Event& event : events) {
    const auto at = places_.find(event.ticket);
    if (event.kind == Event::Kind::token || event.kind == Event::Kind::left || at == places_.end())
      continue;
    const int64_t freed = event.kind == Event::Kind::ended ? 1 : at->second;
    num_places_ -= freed;
    at->second -= freed;
    if (at->second == 0) places_.erase(at);
  }
}

/// Those that have left may be loaded again.
void EngineLoop::forget_adapters(const std::vector<Event>& events) {
  const std::lock_guard lock(mutex_);
  for (const Event& event : events) {
    if (event.kind != Event::Kind::left) continue;
    std::erase_if(adapters_, [&](const auto& each) { return each.second.number == event.ticket; });
  }
}

void EngineLoop::lead(inference::InferenceEngine& engine, const text::Tokenizer* tokenizer,
                      const Deliver& deliver, inference::InferenceEngine* draft) {
  Rank rank(options_, engine, draft, tokenizer, true);
  end_pass(rank);
  try {
    for (;;) {
      const auto round = next_round(rank.is_idle());
      if (round->stops) return;
      begin_pass(*round);
      rank.take(*round);
      rank.step();
      end_pass(rank);
      std::vector<Event> events = rank.take_events();
      free_places(events);
      forget_adapters(events);
      if (!events.empty()) deliver(std::move(events));
    }
  } catch (...) {
    end_followers();
    throw;
  }
}

void EngineLoop::follow(int follower, inference::InferenceEngine& engine,
                        const text::Tokenizer* tokenizer, inference::InferenceEngine* draft) {
  Rank rank(options_, engine, draft, tokenizer, false);
  auto& rounds = rounds_[static_cast<size_t>(follower)];
  for (;;) {
    std::shared_ptr<const Round> round;
    {
      std::unique_lock lock(mutex_);
      mail_.wait(lock, [&] { return !rounds.empty(); });
      round = std::move(rounds.front());
      rounds.pop_front();
    }
    if (round->stops) return;
    rank.take(*round);
    rank.step();
  }
}

}  // namespace megalith::serve
