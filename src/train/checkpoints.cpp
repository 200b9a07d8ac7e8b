// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoints.h"

#include "models/architecture_json.h"

namespace megalith::train {
namespace {

const std::string kFirstMoment = "adamw.m.";
const std::string kSecondMoment = "adamw.v.";

void load(const checkpoint::Reader& reader, device::Device& device, const std::string& name,
          const parameters::Parameter& parameter, View dst, std::vector<std::byte>& host) {
  const checkpoint::TensorInfo* info = reader.find(name);
  if (info == nullptr)
    throw IntegrityError("{}: tensor {} is missing", reader.folder().string(), name);
  if (info->shape != parameter.shape() || info->dtype != dst.dtype()) {
    throw IntegrityError("{}: tensor {} is {} {}, the recipe's model has {} {}",
                         reader.folder().string(), name, info->dtype, info->shape, dst.dtype(),
                         parameter.shape());
  }
  host.resize(static_cast<size_t>(dst.bytes()));
  reader.read(name, parameter.declaration().shard, host.data());
  device.wait(device.copy_to_device(dst, host.data()));
}

}  // namespace

std::vector<checkpoint::TensorSource> state_tensors(Engine& engine) {
  std::vector<checkpoint::TensorSource> tensors;
  size_t i = 0;
  for (const parameters::Parameter& parameter : engine.parameters().all()) {
    MEGA_CHECK(parameter.declaration().shard.is_whole(parameter.shape()), "{} is not whole here",
               parameter.name());
    tensors.push_back({parameter.name(), parameter.master()});
    tensors.push_back({kFirstMoment + parameter.name(), engine.optimizer().first_moment(i)});
    tensors.push_back({kSecondMoment + parameter.name(), engine.optimizer().second_moment(i)});
    ++i;
  }
  return tensors;
}

int64_t state_bytes(Engine& engine) {
  int64_t bytes = 0;
  size_t i = 0;
  for (const parameters::Parameter& parameter : engine.parameters().all()) {
    bytes += parameter.owned_master().bytes() + engine.optimizer().first_moment(i).bytes() +
             engine.optimizer().second_moment(i).bytes();
    ++i;
  }
  return bytes;
}

nlohmann::json state_json(const Position& p, const Engine& engine,
                          const std::string& data_fingerprint) {
  return {{"step", p.step},
          {"samples", p.samples},
          {"tokens", p.tokens},
          {"elapsed_seconds", p.elapsed_seconds},
          {"logs", to_json(p.logs)},
          {"architecture", models::to_json(engine.settings().architecture)},
          {"tensor_shards", engine.settings().split.tensor_shards},
          {"data_fingerprint", data_fingerprint}};
}

Position position_from(const nlohmann::json& state) {
  try {
    return {state.at("step").get<int64_t>(), state.at("samples").get<int64_t>(),
            state.at("tokens").get<int64_t>(), state.at("elapsed_seconds").get<double>(),
            log_positions_from(state.at("logs"))};
  } catch (const nlohmann::json::exception& error) {
    throw IntegrityError("checkpoint: its state is not that of a training run: {}", error.what());
  }
}

void load_state(const checkpoint::Reader& reader, Engine& engine) {
  std::vector<std::byte> host;
  size_t i = 0;
  for (parameters::Parameter& parameter : engine.parameters().all()) {
    load(reader, engine.device(), parameter.name(), parameter, parameter.master(), host);
    load(reader, engine.device(), kFirstMoment + parameter.name(), parameter,
         engine.optimizer().first_moment(i), host);
    load(reader, engine.device(), kSecondMoment + parameter.name(), parameter,
         engine.optimizer().second_moment(i), host);
    ++i;
  }
  engine.parameters().refresh_compute(engine.device());
}

}  // namespace megalith::train
