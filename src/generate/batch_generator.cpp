// SPDX-License-Identifier: Apache-2.0
#include "generate/batch_generator.h"

#include <algorithm>

#include "base/check.h"

namespace megalith::generate {

BatchGenerator::BatchGenerator(inference::InferenceEngine& engine, const text::Tokenizer* tokenizer,
                               const Options& options)
    : engine_(engine),
      tokenizer_(tokenizer),
      drawable_(static_cast<size_t>(tokenizer != nullptr
                                        ? std::min(engine.spec().vocab, tokenizer->vocab_size())
                                        : engine.spec().vocab)),
      kv_(engine.model(), options.blocks),
      store_(kv_.groups(), options.blocks, options.limits.tokens, options.keeps_prefixes),
      scheduler_(store_, options.limits),
      most_sequences_(options.limits.sequences) {
  inference::check_generates(engine.spec());
  if (options.draft == nullptr) return;
  inference::require_one_stack(engine.spec(), "speculation with a draft model");
  draft_.emplace(*options.draft, options.draft_blocks, drawable_);
}

BatchGenerator::~BatchGenerator() {
  for (const auto& [number, writing] : writing_) scheduler_.leave(writing->sequence());
}

std::optional<uint64_t> BatchGenerator::submit(Request request) {
  const WritingModel model{engine_.spec(), drawable_,
                           engine_.model().virtual_tokens(request.adapter.adapter.get()),
                           engine_.model().tokens_in_text(request.adapter.adapter.get())};
  std::unique_ptr<Writing> writing = begin_writing(std::move(request), model, tokenizer_);
  Sequence& sequence = writing->sequence();
  const GenerateOptions& options = writing->request().options;
  if (sequence.width > most_sequences_) {
    throw UserError("{} beams are more than the {} sequences that run at once", sequence.width,
                    most_sequences_);
  }
  if (!store_.can_hold(Scheduler::size_of(sequence))) {
    throw UserError("{} tokens and {} more are beyond the blocks for keys and values",
                    writing->request().prompt.size(), options.max_new_tokens);
  }
  if (options.draft > 0 && !draft_) throw UserError("there is no draft model to guess tokens");
  if (!scheduler_.submit(sequence)) return {};
  sequence.number = ++last_;
  writing_.emplace(last_, std::move(writing));
  return last_;
}

void BatchGenerator::cancel(uint64_t number) {
  if (writing_.contains(number)) leave(number);
}

std::unique_ptr<Writing> BatchGenerator::leave(uint64_t number) {
  std::unique_ptr<Writing> writing = std::move(writing_.at(number));
  writing_.erase(number);
  scheduler_.leave(writing->sequence());
  if (draft_) draft_->forget(number);
  return writing;
}

Writing& BatchGenerator::writing_of(const Scheduler::Part& part) {
  return *writing_.at(part.sequence->number);
}

/// Takes the model's answers to the next tokens of all parts, those with one adapter beside each
/// other: no result depends on their order.
void BatchGenerator::pass(std::vector<Scheduler::Part> parts) {
  std::ranges::stable_sort(parts, {},
                           [](const Scheduler::Part& part) { return part.sequence->salt; });
  std::vector<inference::SequenceRows> rows;
  for (const Scheduler::Part& part : parts) {
    Writing& writing = writing_of(part);
    rows.push_back(writing.rows(part));
    if (part.sequence->memory > 0 && part.index == 0 && part.sequence->past == 0)
      engine_.read(kv_, writing.request().prompt, part.sequence->held.tables(),
                   writing.request().adapter.adapter.get());
  }
  Told mine;
  size_t at = 0;
  int64_t seen = 0;  // of the part's logits
  const std::vector<double> logprobs = engine_.step(kv_, rows, [&](std::span<const float> logits) {
    for (; seen == rows[at].num_logits; ++at) seen = 0;
    const int64_t index = parts[at].count - rows[at].num_logits + seen++;
    writing_of(parts[at]).see(parts[at], index, logits, mine);
  });
  // The last stage has the logits and draws; all ranks learn what.
  Told told(engine_.from_last_stage(mine.numbers()));
  auto left = std::span<const double>(logprobs);
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t targets = rows[i].targets.size();
    writing_of(parts[i]).take(parts[i], told, left.first(targets));
    left = left.subspan(targets);
  }
}

/// A draft's guesses of those that write.
void BatchGenerator::guess() {
  if (!draft_) return;
  std::vector<Draft::Asked> asked;
  for (const auto& [number, writing] : writing_) {
    Sequence& sequence = writing->sequence();
    const int64_t count = writing->wants_guesses();
    if (count <= 0 || sequence.state != Sequence::State::running || sequence.rest() != 1) continue;
    // It has no virtual tokens.
    const size_t before = writing->before_text();
    asked.push_back({number, std::span(sequence.ids).subspan(before), writing->prompt(), count,
                     writing->reach() - static_cast<int64_t>(before),
                     &writing->request().options.sampling, &sequence.proposed});
  }
  draft_->guess(asked);
}

bool BatchGenerator::step() {
  guess();
  const std::vector<Scheduler::Part>& parts = scheduler_.plan();
  for (const auto& [group, from, to] : store_.take_copies()) kv_.copy(group, from, to);
  if (parts.empty()) return false;
  pass(parts);
  std::vector<Writing*> last;
  for (const Scheduler::Part& part : parts)
    if (part.is_last() && part.index == 0) last.push_back(&writing_of(part));
  scheduler_.advance();
  for (Writing* const writing : last) {
    if (!writing->write(scheduler_)) continue;
    const std::unique_ptr<Writing> ended = leave(writing->sequence().number);
    Generated result = ended->result();
    if (ended->request().on_end) ended->request().on_end(std::move(result));
  }
  return true;
}

}  // namespace megalith::generate
