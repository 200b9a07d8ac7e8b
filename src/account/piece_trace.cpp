// SPDX-License-Identifier: Apache-2.0
#include "account/piece_trace.h"

#include "account/traced_step.h"
#include "comm/backends.h"
#include "engine/sharded_model.h"

namespace megalith::account {

PieceTrace pass_piece(const engine::Settings& settings, device::Device& device,
                      comm::Communicator& world, const models::Stage& stage) {
  const parallel::Mesh mesh(world, settings.layout);
  kernels::Exec exec(device, settings.numerics);
  parameters::ParameterSet set;
  const models::Decoder piece(settings.model, set, stage,
                              engine::partition_of(settings, mesh.at().tensor));
  set.allocate(device, {.master = settings.masters, .compute = settings.weights});
  const data::HostBatch host = shaped_batch(settings, settings.micro_batch);
  const int64_t sequences = settings.ragged ? host.num_tokens() : host.num_samples;
  engine::DeviceBatch::TokenPart part;
  if (settings.sequence_parallel()) part = {mesh.at().tensor, mesh.layout().tensor};
  const engine::DeviceBatch batch(device, host, sequences, 1, part);
  layers::Context context = engine::context_of(settings, mesh, exec, 0, settings.model.dropout);

  device::Recorder forward, backward;
  PieceTrace result;
  models::DecoderSaved saved;
  device.set_recorder(&forward);
  if (!stage.has_embedding) piece.input(context, batch.batch(), saved);
  piece.forward(context, batch.batch(), saved, settings.recompute);
  const View output = saved.x_TH.back();
  result.kept_bytes = device.arena(device::MemoryClass::activations).in_use() -
                      round_up(output.bytes(), device::kAlignment);
  device.set_recorder(&backward);
  const device::Tensor dx = context.workspace(context.activation, output.shape());
  if (stage.has_head) {
    const device::Tensor loss_T = context.workspace(settings.masters, Shape{host.num_tokens()});
    piece.loss(context, batch.batch(), saved, static_cast<float>(settings.z_loss), loss_T, dx);
  }
  piece.backward(context, batch.batch(), saved, settings.recompute, dx);
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

PieceTrace trace_piece(const engine::Settings& settings, const device::Target& target,
                       const models::Stage& stage) {
  const auto device = device::make_trace_device(target);
  const auto world = comm::make_traced_communicator(*device, 0, settings.layout.num_ranks());
  return pass_piece(settings, *device, *world, stage);
}

PieceTrace trace_layer(const engine::Settings& settings, const device::Target& target) {
  PieceTrace layer = trace_piece(settings, target, {0, 1, false, false});
  const PieceTrace two = trace_piece(settings, target, {0, 2, false, false});
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
