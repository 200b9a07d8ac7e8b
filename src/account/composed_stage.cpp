// SPDX-License-Identifier: Apache-2.0
#include "account/composed_stage.h"

#include <algorithm>

namespace megalith::account {

using parallel::Action;
using parallel::ActionKind;

void StepWork::add(const device::Work& more, const std::map<std::string, int64_t>& wire,
                   int64_t times) {
  work.flops += static_cast<double>(times) * more.flops;
  work.bytes_read += times * more.bytes_read;
  work.bytes_written += times * more.bytes_written;
  work.bytes_wire += times * more.bytes_wire;
  for (const auto& [kind, bytes] : wire) wire_bytes[kind] += times * bytes;
}

ComposedStage::ComposedStage(engine::Engine& engine, ChunkTapes& tapes) : engine_(engine) {
  int64_t layers = 0;  // of the chunks before
  for (const auto& decoder : engine.model().chunks()) {
    const models::Stage& stage = decoder->stage();
    const layers::RecomputePolicy recompute = engine.settings().recompute.from(layers);
    chunks_.push_back(
        {&tapes.of(stage, recompute, engine.mesh().at().tensor), stage, decoder.get()});
    layers += stage.end - stage.begin;
  }
}

parameters::ParameterRun ComposedStage::ModelChunk::completed(size_t turn) const {
  if (stage.has_head && turn == 0) return decoder->head_parameters();
  const size_t before = stage.has_head ? 1 : 0;
  return decoder->block_parameters(static_cast<size_t>(stage.end - stage.begin) - 1 -
                                   (turn - before));
}

void ComposedStage::pass(const PassTape& tape, const ModelChunk& model_chunk, Objects& objects,
                         const Completed& completed) {
  for (const PassTape::Event& event : tape.events) {
    switch (event.kind) {
      case PassTape::Kind::allocate:
        objects[event.object] = engine_.device().arena(event.memory_class).allocate(event.bytes);
        break;
      case PassTape::Kind::release:  // an output may be gone: it was sent
        objects[event.object].release();
        break;
      case PassTape::Kind::completed:
        if (completed) completed(model_chunk.completed(event.object));
        break;
    }
  }
}

ComposedStage::Slot& ComposedStage::open(int micro_batch, int chunk) {
  const ModelChunk& model_chunk = chunks_[static_cast<size_t>(chunk)];
  Slot& slot = slots_[{micro_batch, chunk}];
  if (slot.batch != nullptr) return slot;
  slot.objects.resize(model_chunk.tape->objects);
  std::weak_ptr<Objects>& shared = batches_[micro_batch];
  slot.batch = shared.lock();
  if (slot.batch == nullptr) {
    slot.batch = std::make_shared<Objects>(model_chunk.tape->batch_objects);
    pass(model_chunk.tape->batch, model_chunk, *slot.batch, {});
    shared = slot.batch;
  }
  return slot;
}

void ComposedStage::place_gradient(Slot& slot, const ModelChunk& model_chunk) {
  if (slot.has_gradient) return;
  pass(model_chunk.tape->place_gradient, model_chunk, slot.objects, {});
  slot.has_gradient = true;
}

void ComposedStage::backward(int micro_batch, int chunk, const Completed& completed) {
  const ModelChunk& model_chunk = chunks_[static_cast<size_t>(chunk)];
  Slot& slot = open(micro_batch, chunk);
  place_gradient(slot, model_chunk);
  pass(model_chunk.tape->backward, model_chunk, slot.objects, completed);
  if (!model_chunk.stage.has_embedding) return;  // until its input's gradient is sent
  slots_.erase({micro_batch, chunk});
  if (completed) completed(model_chunk.decoder->embedding_parameters());
}

void ComposedStage::act(const Action& action, int micro_batch, const Completed& completed) {
  const int chunk = action.chunk;
  const ModelChunk& model_chunk = chunks_[static_cast<size_t>(chunk)];
  const ChunkTape& tape = *model_chunk.tape;
  switch (action.kind) {
    case ActionKind::forward:
      return pass(tape.forward, model_chunk, open(micro_batch, chunk).objects, {});
    case ActionKind::backward:
      return backward(micro_batch, chunk, completed);
    case ActionKind::start_receive_activation:
      return pass(tape.input, model_chunk, open(micro_batch, chunk).objects, {});
    case ActionKind::start_receive_gradient:
      return place_gradient(open(micro_batch, chunk), model_chunk);
    case ActionKind::wait_send_activation:
      if (const auto slot = slots_.find({micro_batch, chunk}); slot != slots_.end())
        slot->second.objects[tape.output].release();
      return;
    case ActionKind::wait_send_gradient:
      slots_.erase({micro_batch, chunk});
      return;
    case ActionKind::start_send_activation:
    case ActionKind::start_send_gradient:
    case ActionKind::wait_receive_activation:
    case ActionKind::wait_receive_gradient:
      return;
  }
}

/// What later passes depend on: free ranges, and where each open slot's objects are, slots counted
/// from `micro_batch`.
std::vector<int64_t> ComposedStage::state(int micro_batch) const {
  std::vector<int64_t> state;
  for (const auto memory_class :
       {device::MemoryClass::activations, device::MemoryClass::workspace}) {
    const device::Arena& arena = engine_.device().arena(memory_class);
    state.push_back(arena.end());
    for (const auto& [offset, bytes] : arena.holes()) state.insert(state.end(), {offset, bytes});
    state.push_back(-1);
  }
  const auto append = [&](const Objects& objects) {
    for (size_t i = 0; i < objects.size(); ++i) {
      if (objects[i].bytes() == 0) continue;
      state.push_back(static_cast<int64_t>(i));
      state.push_back(reinterpret_cast<intptr_t>(objects[i].data()));
    }
    state.push_back(-1);
  };
  for (const auto& [place, slot] : slots_) {
    state.insert(state.end(), {place.first - micro_batch, place.second, slot.has_gradient});
    append(slot.objects);
    append(*slot.batch);
  }
  return state;
}

namespace {

/// Numbers of states that are kept: a schedule that never repeats one has very many.
constexpr size_t kMostRemembered = size_t{1} << 24;

Action later(Action action, int micro_batches) {
  action.micro_batch += micro_batches;
  return action;
}

}  // namespace

void ComposedStage::play(std::span<const Action> actions, const engine::PipelineStage::Work& work) {
  const int micro_batches = static_cast<int>(work.micro_batches.size());
  const auto is_last = [&](const Action& action) {
    return action.micro_batch + 1 == micro_batches && action.kind == ActionKind::backward;
  };
  struct Before {
    size_t next;  // action
    int micro_batch;
  };
  std::map<std::vector<int64_t>, Before> states;
  int skipped = 0;
  size_t remembered = 0;
  for (size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    act(action, action.micro_batch - skipped, is_last(action) ? work.completed : Completed());
    if (action.kind != ActionKind::backward || action.chunk != 0) continue;
    if (skipped > 0 || remembered > kMostRemembered) continue;
    const auto [found, is_new] =
        states.try_emplace(state(action.micro_batch), Before{i + 1, action.micro_batch});
    remembered += found->first.size();
    if (is_new) continue;
    // From here on the actions since then come again some times.
    const Before& before = found->second;
    const size_t length = i + 1 - before.next;
    const int period = action.micro_batch - before.micro_batch;
    size_t alike = 0;
    while (i + 1 + alike < actions.size() && !is_last(actions[i + 1 + alike]) &&
           actions[i + 1 + alike] == later(actions[before.next + alike], period)) {
      ++alike;
    }
    skipped = static_cast<int>(alike / length) * period;
    i += alike / length * length;
  }
  slots_.clear();
  batches_.clear();
}

void ComposedStage::count(std::span<const Action> actions, int64_t micro_batches) {
  // The work of a micro-batch's batch is none: it is copied.
  for (const ModelChunk& model_chunk : chunks_) {
    for (const PassTape* tape : {&model_chunk.tape->input, &model_chunk.tape->forward,
                                 &model_chunk.tape->place_gradient, &model_chunk.tape->backward}) {
      work_.add(tape->work, tape->wire_bytes, micro_batches);
    }
  }
  for (const Action& action : actions) {
    const bool sends_gradient = action.kind == ActionKind::start_send_gradient;
    if (action.kind != ActionKind::start_send_activation && !sends_gradient) continue;
    const ChunkTape& tape = *chunks_[static_cast<size_t>(action.chunk)].tape;
    const int64_t bytes = sends_gradient ? tape.gradient_bytes : tape.output_bytes;
    work_.work.bytes_wire += bytes;
    work_.wire_bytes["send"] += bytes;
  }
}

void ComposedStage::complete(const engine::PipelineStage::Work& work) const {
  if (!work.completed) return;
  for (auto model_chunk = chunks_.rbegin(); model_chunk != chunks_.rend(); ++model_chunk) {
    for (const PassTape::Event& event : model_chunk->tape->backward.events) {
      if (event.kind == PassTape::Kind::completed)
        work.completed(model_chunk->completed(event.object));
    }
    work.completed(model_chunk->decoder->embedding_parameters());
  }
}

}  // namespace megalith::account
