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

/// Of the ranks that hold the same piece one writes it; `turn` goes round them, so that they share
/// the work.
bool is_written_here(Engine& engine, const parameters::Parameter& parameter, size_t turn) {
  const parallel::Mesh& mesh = engine.mesh();
  const auto data = static_cast<size_t>(mesh.layout().data);
  const auto tensor = static_cast<size_t>(mesh.layout().tensor);
  // The tied table is on the first stage and on the last.
  if (&parameter == engine.tied() && !mesh.is_first_stage()) return false;
  if (static_cast<size_t>(mesh.at().data) != turn % data) return false;
  const bool is_cut = !parameter.declaration().shard.is_whole(parameter.shape());
  return is_cut || static_cast<size_t>(mesh.at().tensor) == turn / data % tensor;
}

}  // namespace

void require_saveable(const Settings& settings) {
  if (settings.zero == 0 || settings.layout.data == 1) return;
  throw UserError(
      "recipe: parallel.zero {} with parallel.data {}: checkpoints of spread state are not built; "
      "set parallel.zero to 0 (plan and engine know it already)",
      settings.zero, settings.layout.data);
}

std::vector<checkpoint::TensorSource> state_tensors(Engine& engine) {
  std::vector<checkpoint::TensorSource> tensors;
  size_t i = 0;
  for (const parameters::Parameter& parameter : engine.parameters().all()) {
    const auto add = [&](const std::string& name, ConstView view, size_t kind) {
      if (!is_written_here(engine, parameter, 3 * i + kind)) return;
      tensors.push_back(
          {name, view, checkpoint::Cut{parameter.shape(), parameter.declaration().shard}});
    };
    add(parameter.name(), parameter.master(), 0);
    add(kFirstMoment + parameter.name(), engine.optimizer().first_moment(i), 1);
    add(kSecondMoment + parameter.name(), engine.optimizer().second_moment(i), 2);
    ++i;
  }
  return tensors;
}

int64_t state_bytes(Engine& engine) {
  int64_t bytes = 0;
  if (engine.settings().zero == 0) {
    for (const checkpoint::TensorSource& tensor : state_tensors(engine))
      bytes += tensor.view.bytes();
    return bytes;
  }
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
