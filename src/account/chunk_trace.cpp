// SPDX-License-Identifier: Apache-2.0
#include "account/chunk_trace.h"

#include "account/traced_step.h"
#include "comm/backends.h"
#include "engine/sharded_model.h"
#include "optim/weight_codes.h"

namespace megalith::account {

ChunkPasses::ChunkPasses(const engine::Settings& settings, device::Device& device,
                         comm::Communicator& world, const models::Stage& stage)
    : settings_(settings),
      mesh_(world, settings.layout),
      exec_(device, settings.numerics),
      set_(settings.declaration_rule()),
      model_chunk_(settings.model, set_, stage, engine::partition_of(settings, mesh_.at().tensor)),
      fp8_(engine::make_fp8(settings, device)),
      context_(engine::context_of(settings, mesh_, exec_, 0, settings.model.dropout)),
      losses_(settings),
      host_(shaped_batch(settings, settings.micro_batch)) {
  context_.fp8 = fp8_.get();
  set_.allocate(device, {.master = settings.masters, .compute = settings.weights});
  if (fp8_ != nullptr) optim::allocate_codes(*fp8_, set_);
  loss_U_ = exec_.workspace.tensor(settings.masters, Shape{losses_.count(host_)});
  finite_ = exec_.workspace.tensor(DType::i32, Shape{1});
}

void ChunkPasses::place_batch() {
  engine::DeviceBatch::TokenPart part;
  if (settings_.sequence_parallel()) part = {mesh_.at().tensor, mesh_.layout().tensor};
  const engine::DeviceBatch::Sizes sizes{losses_.max_sequences(host_), losses_.shape(),
                                         losses_.predicted_per_sample(),
                                         settings_.model.embedding.token_types > 0};
  batch_ = std::make_unique<engine::DeviceBatch>(exec_.device, host_, sizes, 1, part);
}

void ChunkPasses::input() { model_chunk_.input(context_, batch_->batch(), saved_); }

void ChunkPasses::forward() {
  model_chunk_.forward(context_, batch_->batch(), saved_, settings_.recompute);
}

void ChunkPasses::place_gradient() {
  const int64_t rows = models::StreamRows(batch_->batch()).all_gradients(context_);
  gradient_TH_ = context_.workspace(context_.activation, Shape{rows, settings_.model.hidden});
}

void ChunkPasses::backward(models::Decoder::Completed completed) {
  const layers::Batch& batch = batch_->batch();
  if (model_chunk_.stage().has_head) {
    model_chunk_.loss(context_, batch, saved_, static_cast<float>(settings_.z_loss), loss_U_,
                      gradient_TH_);
    engine::check_finite(exec_, batch, loss_U_, finite_);
    completed(model_chunk_.head_parameters());
  }
  model_chunk_.backward(context_, batch, saved_, settings_.recompute, gradient_TH_, completed);
  saved_ = {};
}

ChunkTrace pass_chunk(const engine::Settings& settings, device::Device& device,
                      comm::Communicator& world, const models::Stage& stage) {
  ChunkPasses passes(settings, device, world, stage);
  passes.place_batch();
  device::Recorder forward, backward;
  ChunkTrace result;
  device.set_recorder(&forward);
  if (!stage.has_embedding) passes.input();
  passes.forward();
  result.kept_bytes = device.arena(device::MemoryClass::activations).in_use() -
                      round_up(passes.output().bytes(), device::kAlignment);
  device.set_recorder(&backward);
  passes.place_gradient();
  passes.backward([](const parameters::ParameterRun&) {});
  device.set_recorder(nullptr);
  result.peak_bytes = device.arena(device::MemoryClass::activations).high_water();
  result.forward = forward.total();
  result.backward = backward.total();
  result.forward_records = forward.records();
  result.backward_records = backward.records();
  return result;
}

namespace {

device::Work minus(const device::Work& a, const device::Work& b) {
  return {a.flops - b.flops, a.bytes_read - b.bytes_read, a.bytes_written - b.bytes_written,
          a.bytes_wire - b.bytes_wire};
}

}  // namespace

ChunkTrace trace_chunk(const engine::Settings& settings, const device::Target& target,
                       const models::Stage& stage) {
  const auto device = device::make_trace_device(target);
  const auto world = comm::make_traced_communicator(*device, 0, settings.layout.num_ranks());
  return pass_chunk(settings, *device, *world, stage);
}

ChunkTrace trace_layer(engine::Settings settings, const device::Target& target) {
  settings.frozen.clear();
  ChunkTrace layer = trace_chunk(settings, target, {0, 1, false, false});
  const ChunkTrace two = trace_chunk(settings, target, {0, 2, false, false});
  layer.kept_bytes = two.kept_bytes - layer.kept_bytes;
  layer.forward = minus(two.forward, layer.forward);
  layer.backward = minus(two.backward, layer.backward);
  return layer;
}

std::map<std::string, int64_t> wire_bytes_by_kind(const std::vector<device::Record>& records) {
  std::map<std::string, int64_t> bytes;
  for (const device::Record& record : records) {
    if (record.work.bytes_wire == 0) continue;
    const bool again = record.scope.ends_with(layers::kGatheredAgain);
    bytes[again ? record.name + "_again" : record.name] += record.work.bytes_wire;
  }
  return bytes;
}

}  // namespace megalith::account
