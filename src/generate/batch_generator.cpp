// SPDX-License-Identifier: Apache-2.0
#include "generate/batch_generator.h"

#include <algorithm>

#include "base/clock.h"

namespace megalith::generate {

/// A request on its way.
struct BatchGenerator::Writing {
  Request request;
  Sequence sequence;
  std::optional<Continuation> text;
  size_t prompt = 0;       // of the sequence's tokens
  int64_t reach = 0;       // engine::SequenceRows
  double begin = 0;        // submitted
  double first_token = 0;  // chosen
};

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
  for (const auto& [number, writing] : writing_) scheduler_.leave(writing->sequence);
}

std::optional<uint64_t> BatchGenerator::submit(Request request) {
  const models::ModelSpec& spec = engine_.spec();
  check(request.options);
  engine::check_ids(spec, request.prompt, spec.context);
  auto made = std::make_unique<Writing>();
  Writing& writing = *made;
  writing.begin = monotonic_seconds();
  writing.request = std::move(request);
  const std::vector<int32_t>& prompt = writing.request.prompt;
  Sequence& sequence = writing.sequence;
  sequence.client = writing.request.client;
  const bool reads = spec.is_encoder_decoder();
  if (reads) {
    sequence.ids = {narrow<int32_t>(spec.decoder_start)};
    sequence.memory = std::ssize(prompt);
  } else {
    sequence.ids = prompt;
  }
  writing.prompt = sequence.ids.size();
  // The token chosen at the last position of the context needs no place among the blocks.
  const int64_t begun = std::ssize(sequence.ids), room = spec.context - begun + 1;
  const int64_t most = std::min(writing.request.options.max_new_tokens, room);
  sequence.most = begun + std::max<int64_t>(most - 1, 0);
  writing.reach = std::min(begun + std::min(writing.request.options.max_new_tokens, spec.context),
                           spec.context);
  if (!store_.can_hold(sequence.most, sequence.memory)) {
    throw UserError("{} tokens and {} more are beyond the blocks for keys and values",
                    prompt.size(), most);
  }
  writing.text.emplace(tokenizer_, writing.request.options,
                       reads ? std::span<const int32_t>() : prompt, most);
  if (!scheduler_.submit(sequence)) return {};
  sequence.number = ++last_;
  writing_.emplace(sequence.number, std::move(made));
  return last_;
}

void BatchGenerator::cancel(uint64_t number) {
  const auto at = writing_.find(number);
  if (at == writing_.end()) return;
  scheduler_.leave(at->second->sequence);
  writing_.erase(at);
}

engine::InferenceEngine::StepResult BatchGenerator::pass(
    const std::vector<Scheduler::Part>& parts) {
  std::vector<engine::SequenceRows> rows;
  for (const auto& [sequence, count] : parts) {
    if (sequence->memory > 0 && sequence->past == 0)
      engine_.read(kv_, writing_.at(sequence->number)->request.prompt, sequence->held.tables());
    rows.push_back(
        {.ids = std::span(sequence->ids)
                    .subspan(static_cast<size_t>(sequence->past), static_cast<size_t>(count)),
         .past = sequence->past,
         .reach = writing_.at(sequence->number)->reach,
         .blocks = &sequence->held.tables(),
         .memory = sequence->memory,
         .wants_logits = sequence->past + count == std::ssize(sequence->ids)});
  }
  return engine_.step(kv_, rows);
}

/// The last stage has the logits and draws; all ranks learn what.
std::vector<Choice> BatchGenerator::choose(std::span<const float> logits,
                                           std::span<Writing* const> asking) {
  const auto vocab = static_cast<size_t>(engine_.spec().vocab);
  std::vector<double> drawn;
  for (size_t i = 0; i < asking.size() && !logits.empty(); ++i) {
    const Writing& writing = *asking[i];
    const Choice choice =
        choose_token(logits.subspan(i * vocab, drawable_), writing.request.options.sampling,
                     {writing.sequence.ids, writing.prompt});
    drawn.insert(drawn.end(), {static_cast<double>(choice.id), choice.logprob});
  }
  drawn = engine_.from_last_stage(drawn);
  std::vector<Choice> choices;
  for (size_t i = 0; i < asking.size(); ++i)
    choices.push_back({static_cast<int32_t>(drawn.at(2 * i)), drawn.at(2 * i + 1)});
  return choices;
}

void BatchGenerator::write(Writing& writing, const Choice& choice) {
  if (writing.first_token == 0) writing.first_token = monotonic_seconds();
  Continuation& text = *writing.text;
  if (!text.has_ended()) text.push(choice);
  if (const std::string_view piece = text.release(); !piece.empty() && writing.request.on_text)
    writing.request.on_text(piece);
  if (!text.has_ended()) {
    writing.sequence.ids.push_back(choice.id);
    return;
  }
  Generated result = text.take();
  result.prompt_seconds = writing.first_token - writing.begin;
  result.decode_seconds = monotonic_seconds() - writing.first_token;
  scheduler_.leave(writing.sequence);
  const std::unique_ptr<Writing> last = std::move(writing_.at(writing.sequence.number));
  writing_.erase(last->sequence.number);
  if (last->request.on_end) last->request.on_end(std::move(result));
}

bool BatchGenerator::step() {
  const std::vector<Scheduler::Part>& parts = scheduler_.plan();
  if (parts.empty()) return false;
  std::vector<Writing*> asking;
  for (const Scheduler::Part& part : parts)
    if (part.is_last()) asking.push_back(writing_.at(part.sequence->number).get());
  const auto result = pass(parts);
  scheduler_.advance();
  const std::vector<Choice> choices = choose(result.logits, asking);
  for (size_t i = 0; i < asking.size(); ++i) write(*asking[i], choices[i]);
  return true;
}

}  // namespace megalith::generate
