// SPDX-License-Identifier: Apache-2.0
#include "generate/draft.h"

#include <algorithm>

#include "generate/continuation.h"

namespace megalith::generate {

Draft::Draft(inference::InferenceEngine& engine, const std::vector<int64_t>& blocks,
             size_t drawable)
    : engine_(engine),
      drawable_(std::min(drawable, static_cast<size_t>(engine.spec().vocab))),
      kv_(engine.model(), blocks),
      store_(kv_.groups(), blocks, kPassTokens, false) {
  inference::require_one_stack(engine.spec(), "guessing");
}

std::vector<int64_t> Draft::needed(const models::ModelSpec& spec, int64_t positions) {
  // It reads a pass and its guesses before any of them is known to be the text's.
  return BlockStore::needed(inference::kv_groups(spec),
                            {.positions = std::min(positions, spec.context)},
                            kPassTokens + kMostGuesses);
}

void Draft::forget(uint64_t number) {
  const auto at = readings_.find(number);
  if (at == readings_.end()) return;
  store_.release(at->second.held);
  readings_.erase(at);
}

/// To what it has read of the text as it now is; guesses that were wrong are overwritten.
void Draft::go_back(const Asked& asked, Reading& reading) {
  if (reading.held.tables().empty()) store_.begin(reading.held, 0, {});
  const auto differ = std::ranges::mismatch(reading.ids, asked.ids).in1;
  const auto common = static_cast<int64_t>(differ - reading.ids.begin());
  reading.past = std::min({common, reading.past, std::ssize(asked.ids) - 1});
  reading.ids.assign(asked.ids.begin(), asked.ids.end());
  store_.written(reading.held, 0, std::span(reading.ids).first(static_cast<size_t>(reading.past)));
}

void Draft::guess(std::span<const Asked> asked) {
  std::vector<Going> going;
  for (const Asked& one : asked) {
    one.guesses->clear();
    if (std::ssize(one.ids) > engine_.spec().context) continue;
    Reading& reading = readings_[one.number];
    go_back(one, reading);
    going.push_back({&one, &reading});
  }
  while (!going.empty() && pass(going)) {
  }
}

/// The next tokens of all; those that are done, or without room, go. False if there was nothing.
bool Draft::pass(std::vector<Going>& going) {
  std::vector<inference::SequenceRows> rows;
  std::vector<Going> here;
  int64_t left = kPassTokens;
  std::erase_if(going, [&](const Going& g) {
    Reading& reading = *g.reading;
    const int64_t count = std::min(std::ssize(reading.ids) - reading.past, left);
    if (count == 0) return false;
    if (!store_.extend(reading.held, reading.past + count)) return true;
    left -= count;
    const auto ids = std::span<const int32_t>(reading.ids);
    rows.push_back(
        {.ids = ids.subspan(static_cast<size_t>(reading.past), static_cast<size_t>(count)),
         .past = reading.past,
         .reach = std::min(g.asked->reach, engine_.spec().context),
         .blocks = &reading.held.tables(),
         .num_logits = reading.past + count == std::ssize(reading.ids) ? 1 : 0});
    here.push_back(g);
    return false;
  });
  if (rows.empty()) return false;
  std::vector<double> mine;
  size_t at = 0;
  engine_.step(kv_, rows, [&](std::span<const float> logits) {
    while (rows[at].num_logits == 0) ++at;
    const auto& [asked, reading] = here[at++];
    mine.push_back(
        choose_token(logits.first(drawable_), *asked->sampling, {reading->ids, asked->prompt}).id);
  });
  const std::vector<double> chosen = engine_.from_last_stage(mine);
  auto next = chosen.begin();
  for (size_t i = 0; i < here.size(); ++i) {
    const auto& [asked, reading] = here[i];
    reading->past += std::ssize(rows[i].ids);
    if (reading->past <= std::ssize(asked->ids))
      store_.written(reading->held, 0, asked->ids.first(static_cast<size_t>(reading->past)));
    if (rows[i].num_logits == 0) continue;
    asked->guesses->push_back(static_cast<int32_t>(*next++));
    reading->ids.push_back(asked->guesses->back());
  }
  std::erase_if(going, [&](const Going& g) {
    const int64_t guesses = std::ssize(*g.asked->guesses);
    return guesses >= g.asked->count || std::ssize(g.reading->ids) > engine_.spec().context;
  });
  return true;
}

}  // namespace megalith::generate
