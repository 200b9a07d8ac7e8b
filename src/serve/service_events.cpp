// SPDX-License-Identifier: Apache-2.0
// What becomes of the engine's events: pieces of streams, answers, figures.
#include <fmt/ranges.h>

#include <algorithm>

#include "base/clock.h"
#include "base/one_line.h"
#include "serve/active_request.h"

namespace megalith::serve {

using protocols::ApiError;

namespace {

/// A text that is not of its form is no answer.
ApiError broken_off(const generate::Generated& result) {
  return ApiError("",
                  "the grammar let nothing follow '{}': the tokenizer has no token that it allows, "
                  "or it is too ambiguous to be followed",
                  one_line(result.text, 200))
      .with_reason("grammar_stuck");
}

}  // namespace

void Service::on_events(std::vector<Event> events) {
  for (Event& event : events) {
    if (event.kind == Event::Kind::left) {
      on_adapter_left(event.ticket);
      continue;
    }
    const auto at = active_.find(event.ticket);
    if (at == active_.end()) continue;  // it was cancelled meanwhile
    const std::shared_ptr<Active> active = at->second;
    try {
      on_event(*active, event);
    } catch (const std::exception& error) {  // events of other requests follow
      fail(*active, ApiError("", "{}", error.what()).with_status(500));
    }
  }
}

void Service::on_event(Active& active, Event& event) {
  switch (event.kind) {
    case Event::Kind::token:
      return on_token(active, event);
    case Event::Kind::refused:
      return fail(active, ApiError("", "{}", event.message));
    case Event::Kind::vectors: {
      active.left = 0;
      int64_t tokens = 0;
      for (const auto& reading : active.reading->readings) tokens += std::ssize(reading.ids);
      metrics_.prompt_tokens += tokens;
      active.exchange->respond(response_of(active.reading->answer(std::move(event.vectors))));
      return finish(active);
    }
    case Event::Kind::ended:
    case Event::Kind::left:
      break;
  }
  protocols::Written& written = active.written[event.sequence];
  written = std::move(event.written);
  if (written.result.finish_reason == "error") return fail(active, broken_off(written.result));
  written.tokens = std::move(active.tokens[event.sequence]);
  count_ended(active, event.sequence);
  if (active.reply->streams) send(active, active.reply->on_end(event.sequence, written));
  if (--active.left > 0) return;
  protocols::Body body = active.reply->finish(std::move(active.written));
  if (active.streams) {
    active.exchange->send(body.text);
    active.exchange->end_stream();
  } else {
    active.exchange->respond(response_of(std::move(body)));
  }
  finish(active);
}

void Service::on_token(Active& active, Event& event) {
  const double now = monotonic_seconds();
  double& last = active.last_tokens[event.sequence];
  if (last == 0) {
    metrics_.first_token.add(now - active.begin);
  } else {
    metrics_.between_tokens.add(now - last);
  }
  last = now;
  ++metrics_.generated_tokens;
  if (active.reply->streams) send(active, active.reply->on_token(event.sequence, event.token));
  active.tokens[event.sequence].push_back(std::move(event.token));
}

void Service::send(Active& active, const std::string& events) {
  if (!active.streams) {
    active.streams = true;
    active.exchange->begin_stream(
        {.content_type = "text/event-stream; charset=utf-8",
         .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}});
    active.exchange->send(active.reply->begin());
  }
  active.exchange->send(events);
}

void Service::count_ended(const Active& active, size_t sequence) {
  const generate::Generated& result = active.written[sequence].result;
  ++metrics_.finish_reasons[result.finish_reason];
  metrics_.queued.add(result.queue_seconds);
  metrics_.prefill.add(result.prompt_seconds);
  metrics_.decode.add(result.decode_seconds);
  metrics_.inference.add(result.prompt_seconds + result.decode_seconds);
  metrics_.guesses += result.speculated.guesses;
  metrics_.right_guesses += result.speculated.right;
  metrics_.prompt_tokens += active.prompt_lengths[sequence];
  metrics_.prompt_lengths.add(static_cast<double>(active.prompt_lengths[sequence]));
  metrics_.text_lengths.add(static_cast<double>(result.ids.size()));
  // A search has told of the tokens of its best text.
  for (const generate::Generated& other : result.others)
    metrics_.generated_tokens += std::ssize(other.ids);
  if (result.ids.size() > 1)
    metrics_.per_token.add(result.decode_seconds / static_cast<double>(result.ids.size() - 1));
}

void Service::finish(Active& active) {
  ++metrics_.finished;
  metrics_.whole.add(monotonic_seconds() - active.begin);
  active.exchange->on_gone = nullptr;
  active_.erase(active.ticket);
}

/// Ends a request that the engine may still work for.
void Service::fail(Active& active, const ApiError& error) {
  loop_.cancel(active.ticket);
  ++metrics_.failed;
  if (active.streams) {
    active.exchange->send(active.reply->broken_off(error));
    active.exchange->end_stream();
  } else {
    active.exchange->refuse(error);
  }
  active.exchange->on_gone = nullptr;
  active_.erase(active.ticket);
}

void Service::tick(double now) {
  std::vector<std::shared_ptr<Active>> late;
  for (const auto& [ticket, active] : active_)
    if (now > active->deadline) late.push_back(active);
  for (const auto& active : late) {
    fail(*active, ApiError("", "the request took longer than {:.0f} seconds",
                           active->deadline - active->begin)
                      .with_status(504));
  }
}

void Service::end_all(const ApiError& error) {
  const auto all = active_;
  for (const auto& [ticket, active] : all) fail(*active, error);
  for (const auto& [number, exchange] : std::exchange(leave_, {})) exchange->refuse(error);
}

std::string Service::names_of(const std::vector<uint64_t>& tickets) const {
  std::vector<std::string> names;
  for (const uint64_t ticket : tickets) {
    const auto at = active_.find(ticket);
    names.push_back(at == active_.end() ? fmt::format("#{} (left)", ticket)
                                        : fmt::format("#{} ({}, {}, {} texts of {} tokens read)",
                                                      ticket, at->second->path, at->second->client,
                                                      at->second->prompt_lengths.size(),
                                                      fmt::join(at->second->prompt_lengths, "+")));
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace megalith::serve
