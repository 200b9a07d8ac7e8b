// SPDX-License-Identifier: Apache-2.0
#include "evaluate/continuation_scorer.h"

#include <algorithm>

#include "base/check.h"
#include "spec/rotary_frequencies.h"

namespace megalith::evaluate {
namespace {

/// Tokens of a pass: enough to keep the products of a small model busy, little memory for a large.
constexpr int64_t kScoredTokens = 1024;

int64_t blocks_for(int64_t positions) { return kernels::kv_cache_blocks(positions); }

/// A batch's tokens and the longest sequence; and since each question of a batch, however short,
/// holds a block of its own, and examples are worth keeping, as many more as half a gigabyte holds
/// (at most: keys and values are rarely as wide as the model).
int64_t num_blocks(const models::ModelSpec& spec, int64_t longest) {
  constexpr int64_t kBytes = int64_t{512} << 20, kWidest = 2 * sizeof(float);
  const int64_t block =
      generate::BlockStore::kBlock * kWidest * spec.hidden * std::ssize(spec.layers);
  const int64_t more = std::clamp<int64_t>(kBytes / block, 8, 512);
  return 2 * blocks_for(kScoredTokens) + 2 * blocks_for(longest) + more;
}

std::vector<int64_t> counts_of(const models::ModelSpec& spec, int64_t blocks) {
  inference::require_one_stack(spec, "scoring continuations");
  return std::vector<int64_t>(inference::kv_groups(spec).size(), blocks);
}

bool depends_on_length(const models::ModelSpec& spec) {
  return std::ranges::any_of(spec.layers, [](const layers::LayerSpec& layer) {
    return layers::depends_on_length(layer.attention.rope.scaling);
  });
}

/// Whether the logits' largest is `id`, and the first of equals.
bool is_most_likely(std::span<const float> logits, int32_t id) {
  return std::ranges::max_element(logits) - logits.begin() == id;
}

}  // namespace

ContinuationScorer::ContinuationScorer(inference::InferenceEngine& engine, int64_t longest,
                                       bool wants_greedy)
    : engine_(engine),
      wants_greedy_(wants_greedy),
      by_length_(depends_on_length(engine.spec())),
      blocks_(num_blocks(engine.spec(), longest + engine.model().virtual_tokens())),
      kv_(engine.model(), counts_of(engine.spec(), blocks_)),
      store_(kv_.groups(), counts_of(engine.spec(), blocks_), kScoredTokens, true) {}

ContinuationScorer::Group ContinuationScorer::group_of(std::span<const ScoredIds> asked) const {
  Group group{.asked = asked};
  if (asked.size() < 2) return group;
  const std::vector<int32_t>& first = asked[0].ids;
  int64_t common = std::ssize(first);
  for (const ScoredIds& one : asked) {
    const auto differs = std::ranges::mismatch(first, one.ids).in1;
    common = std::min<int64_t>({common, differs - first.begin(),
                                // The last id before what is scored is read with it.
                                std::ssize(one.ids) - one.scored - 1});
  }
  const auto is_as_long = [&](const ScoredIds& one) { return one.ids.size() == first.size(); };
  if (!by_length_ || std::ranges::all_of(asked, is_as_long))
    group.common = std::max<int64_t>(common, 0);
  return group;
}

/// That it holds at one time.
int64_t ContinuationScorer::blocks_of(const Group& group) const {
  int64_t blocks = blocks_for(group.common);
  for (const ScoredIds& one : group.asked)
    blocks += blocks_for(std::ssize(one.ids) - 1) - group.common / generate::BlockStore::kBlock;
  return blocks;
}

/// As many as a pass has room for, at least one.
std::vector<ContinuationScorer::Group> ContinuationScorer::next_batch(
    std::span<const Group> groups) const {
  std::vector<Group> batch;
  int64_t blocks = 0, tokens = 0;
  for (const Group& group : groups) {
    int64_t more = group.common;
    for (const ScoredIds& one : group.asked) more += std::ssize(one.ids) - 1 - group.common;
    blocks += blocks_of(group);
    tokens += more;
    if (!batch.empty() && (blocks > blocks_ || tokens > 2 * kScoredTokens)) break;
    batch.push_back(group);
  }
  return batch;
}

std::vector<std::vector<ScoredAnswer>> ContinuationScorer::score(
    std::span<const std::vector<ScoredIds>> documents, const OnProgress& on_progress) {
  const int64_t count = engine_.model().virtual_tokens();
  if (count == 0) return score_read(documents, on_progress);
  const std::vector<int32_t> before = layers::virtual_ids(engine_.spec().vocab, count);
  std::vector<std::vector<ScoredIds>> read(documents.begin(), documents.end());
  for (std::vector<ScoredIds>& document : read)
    for (ScoredIds& one : document) one.ids.insert(one.ids.begin(), before.begin(), before.end());
  return score_read(read, on_progress);
}

/// Of ids as they are read.
std::vector<std::vector<ScoredAnswer>> ContinuationScorer::score_read(
    std::span<const std::vector<ScoredIds>> documents, const OnProgress& on_progress) {
  std::vector<Group> groups;
  std::vector<std::vector<ScoredAnswer>> answers(documents.size());
  for (size_t d = 0; d < documents.size(); ++d) {
    answers[d].resize(documents[d].size());
    Group whole = group_of(documents[d]);
    whole.document = d;
    if (blocks_of(whole) <= blocks_) {
      groups.push_back(whole);
      continue;
    }
    for (size_t i = 0; i < documents[d].size(); ++i)
      groups.push_back({d, i, std::span(documents[d]).subspan(i, 1), 0});
  }
  for (std::span<const Group> left = groups; !left.empty();) {
    const std::vector<Group> batch = next_batch(left);
    read_batch(batch, answers);
    left = left.subspan(batch.size());
    if (on_progress)
      on_progress(left.empty() ? std::ssize(documents) : static_cast<int64_t>(left[0].document));
  }
  return answers;
}

void ContinuationScorer::read_batch(std::span<const Group> batch,
                                    std::vector<std::vector<ScoredAnswer>>& answers) {
  std::vector<Line> common(batch.size()), lines;
  std::vector<Line*> reading;
  for (size_t g = 0; g < batch.size(); ++g) {
    const Group& group = batch[g];
    if (group.common == 0) continue;
    Line& line = common[g];
    line.ids = std::span(group.asked[0].ids).first(static_cast<size_t>(group.common));
    line.first_scored = group.common;
    for (const ScoredIds& one : group.asked) line.reach = std::max(line.reach, std::ssize(one.ids));
    line.salt = by_length_ ? static_cast<uint64_t>(line.reach) : 0;
    line.past = store_.begin(line.held, line.salt, line.ids);
    reading.push_back(&line);
  }
  read(reading);
  size_t count = 0;
  for (const Group& group : batch) count += group.asked.size();
  lines.reserve(count);
  for (size_t g = 0; g < batch.size(); ++g) {
    for (const ScoredIds& one : batch[g].asked) {
      Line& line = lines.emplace_back();
      line.ids = std::span(one.ids).first(one.ids.size() - 1);
      line.last = one.ids.back();
      line.reach = std::ssize(one.ids);
      line.salt = by_length_ ? static_cast<uint64_t>(line.reach) : 0;
      line.first_scored = std::ssize(line.ids) - one.scored;
      if (batch[g].common > 0) {
        line.past = batch[g].common;
        store_.fork(common[g].held, line.past, line.held);
      } else {
        // Of what is known nothing may be scored: its log-probabilities are not kept.
        const auto before = static_cast<size_t>(line.first_scored);
        line.past = store_.begin(line.held, line.salt, line.ids.first(before + 1));
      }
    }
  }
  reading.clear();
  for (Line& line : lines) reading.push_back(&line);
  read(reading);
  size_t at = 0;
  for (const Group& group : batch) {
    for (size_t i = 0; i < group.asked.size(); ++i)
      answers[group.document][group.first + i] = lines[at++].answer;
  }
  for (Line& line : lines) store_.release(line.held);
  for (Line& line : common) store_.release(line.held);
}

void ContinuationScorer::read(std::span<Line* const> lines) {
  for (Line* const line : lines)
    MEGA_CHECK(store_.extend(line->held, std::ssize(line->ids)), "no blocks for {} ids",
               line->ids.size());
  std::vector<Line*> waiting(lines.begin(), lines.end());
  const auto is_read = [](const Line* line) { return line->past == std::ssize(line->ids); };
  while (true) {
    std::erase_if(waiting, is_read);
    if (waiting.empty()) return;
    pass(waiting);
  }
}

/// The next tokens of as many lines, in order, as a pass holds.
void ContinuationScorer::pass(std::span<Line* const> lines) {
  for (const auto& [group, from, to] : store_.take_copies()) kv_.copy(group, from, to);
  std::vector<inference::SequenceRows> rows;
  std::vector<std::vector<int32_t>> targets;
  targets.reserve(lines.size());
  int64_t left = kScoredTokens;
  for (Line* const line : lines) {
    if (left == 0) break;
    const int64_t count = std::min(left, std::ssize(line->ids) - line->past);
    const int64_t end = line->past + count, first = std::max(line->past, line->first_scored);
    std::vector<int32_t>& wanted = targets.emplace_back();
    for (int64_t i = first; i < end; ++i) {
      const bool is_last = i + 1 == std::ssize(line->ids);
      wanted.push_back(is_last ? line->last : line->ids[static_cast<size_t>(i + 1)]);
    }
    rows.push_back(
        {.ids = line->ids.subspan(static_cast<size_t>(line->past), static_cast<size_t>(count)),
         .past = line->past,
         .reach = line->reach,
         .blocks = &line->held.tables(),
         .num_logits = wants_greedy_ ? std::ssize(wanted) : 0,
         .targets = wanted,
         .first_target = wanted.empty() ? 0 : first - line->past});
    left -= count;
  }
  // By row, tokens that are not the most likely; the last stage sees the logits.
  std::vector<double> wrong(rows.size());
  size_t row = 0, seen = 0;
  const std::vector<double> logprobs = engine_.step(kv_, rows, [&](std::span<const float> logits) {
    while (seen == targets[row].size()) {
      ++row;
      seen = 0;
    }
    wrong[row] += is_most_likely(logits, targets[row][seen++]) ? 0 : 1;
  });
  if (wants_greedy_) wrong = engine_.from_last_stage(wrong);
  auto rest = std::span<const double>(logprobs);
  for (size_t r = 0; r < rows.size(); ++r) {
    Line& line = *lines[r];
    const bool begins = line.past <= line.first_scored;
    if (begins) line.answer = {0, true};
    for (const double logprob : rest.first(targets[r].size())) line.answer.logprob += logprob;
    rest = rest.subspan(targets[r].size());
    line.answer.is_greedy = line.answer.is_greedy && wrong[r] == 0;
    line.past += std::ssize(rows[r].ids);
    store_.written(line.held, line.salt, line.ids.first(static_cast<size_t>(line.past)));
  }
}

}  // namespace megalith::evaluate
