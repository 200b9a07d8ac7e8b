// SPDX-License-Identifier: Apache-2.0
#include "generate/batch_generator.h"

#include <algorithm>

#include "base/check.h"

namespace megalith::generate {

BatchGenerator::BatchGenerator(engine::InferenceEngine& engine, const text::Tokenizer* tokenizer,
                               const Options& options)
    : engine_(engine),
      tokenizer_(tokenizer),
      drawable_(static_cast<size_t>(tokenizer != nullptr
                                        ? std::min(engine.spec().vocab, tokenizer->vocab_size())
                                        : engine.spec().vocab)),
      kv_(engine.model(), options.blocks),
      store_(kv_.groups(), options.blocks, options.limits.tokens, options.keeps_prefixes),
      scheduler_(store_, options.limits) {
  engine::check_generates(engine.spec());
}

BatchGenerator::~BatchGenerator() {
  for (const auto& [number, writing] : writing_) scheduler_.leave(writing->sequence());
}

std::optional<uint64_t> BatchGenerator::submit(Request request) {
  auto writing =
      std::make_unique<Writing>(std::move(request), engine_.spec(), tokenizer_, drawable_);
  Sequence& sequence = writing->sequence();
  if (!store_.can_hold(sequence.most, sequence.memory)) {
    const size_t prompt = writing->request().prompt.size();
    throw UserError("{} tokens and {} more are beyond the blocks for keys and values", prompt,
                    sequence.most + 1 - std::ssize(sequence.ids));
  }
  if (!scheduler_.submit(sequence)) return {};
  sequence.number = ++last_;
  writing_.emplace(last_, std::move(writing));
  return last_;
}

void BatchGenerator::cancel(uint64_t number) {
  const auto at = writing_.find(number);
  if (at == writing_.end()) return;
  scheduler_.leave(at->second->sequence());
  writing_.erase(at);
}

Writing& BatchGenerator::writing_of(const Scheduler::Part& part) {
  return *writing_.at(part.sequence->number);
}

/// Returns the log-probabilities of all targets; on the last stage puts what it has to tell.
std::vector<double> BatchGenerator::pass(const std::vector<Scheduler::Part>& parts,
                                         std::vector<double>& told) {
  std::vector<engine::SequenceRows> rows;
  for (const Scheduler::Part& part : parts) {
    Writing& writing = writing_of(part);
    rows.push_back(writing.rows(part));
    if (part.sequence->memory > 0 && part.sequence->past == 0)
      engine_.read(kv_, writing.request().prompt, part.sequence->held.tables());
  }
  size_t at = 0;
  int64_t seen = 0;  // of the part's logits
  return engine_.step(kv_, rows, [&](std::span<const float> logits) {
    for (; seen == rows[at].num_logits; ++at) seen = 0;
    const int64_t index = parts[at].count - rows[at].num_logits + seen++;
    writing_of(parts[at]).see(parts[at], index, logits, told);
  });
}

void BatchGenerator::end(uint64_t number) {
  const std::unique_ptr<Writing> last = std::move(writing_.at(number));
  writing_.erase(number);
  scheduler_.leave(last->sequence());
  if (const auto& on_end = last->request().on_end) on_end(last->result());
}

bool BatchGenerator::step() {
  const std::vector<Scheduler::Part>& parts = scheduler_.plan();
  if (parts.empty()) return false;
  std::vector<double> mine;
  const std::vector<double> logprobs = pass(parts, mine);
  // The last stage has the logits and draws; all ranks learn what.
  Told told(engine_.from_last_stage(mine));
  std::vector<Writing*> asking;
  auto left = std::span<const double>(logprobs);
  for (const Scheduler::Part& part : parts) {
    Writing& writing = writing_of(part);
    const size_t targets = writing.rows(part).targets.size();
    writing.take(part, told, left.first(targets));
    left = left.subspan(targets);
    if (part.is_last()) asking.push_back(&writing);
  }
  scheduler_.advance();
  for (Writing* const writing : asking)
    if (writing->write()) end(writing->sequence().number);
  return true;
}

}  // namespace megalith::generate
