// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoints.h"

#include <algorithm>
#include <numeric>

#include "models/architecture_json.h"

namespace megalith::train {
namespace {

const std::string kFirstMoment = "adamw.m.";
const std::string kSecondMoment = "adamw.v.";

/// The whole local part of a tensor.
void read(const checkpoint::Reader& reader, const std::string& name,
          const parameters::Parameter& parameter, DType dtype, std::vector<std::byte>& host) {
  const checkpoint::TensorInfo* info = reader.find(name);
  if (info == nullptr)
    throw IntegrityError("{}: tensor {} is missing", reader.folder().string(), name);
  if (info->shape != parameter.shape() || info->dtype != dtype) {
    throw IntegrityError("{}: tensor {} is {} {}, the recipe's model has {} {}",
                         reader.folder().string(), name, info->dtype, info->shape, dtype,
                         parameter.shape());
  }
  host.resize(static_cast<size_t>(parameter.local_elements() * bytes_of(dtype)));
  reader.read(name, parameter.declaration().shard, host.data());
}

/// Whether one of this rank's data ranks writes its piece: of the tensor ranks that hold the same
/// one does, and of the two stages that hold a tied table the first.
bool is_written_by_group(const Engine& engine, const parameters::Parameter& parameter,
                         size_t turn) {
  const parallel::Mesh& mesh = engine.mesh();
  const auto data = static_cast<size_t>(mesh.layout().data);
  const auto tensor = static_cast<size_t>(mesh.layout().tensor);
  if (&parameter == engine.tied() && !mesh.is_first_stage()) return false;
  const bool is_cut = !parameter.declaration().shard.is_whole(parameter.shape());
  return is_cut || static_cast<size_t>(mesh.at().tensor) == turn / data % tensor;
}

/// Parameter, then first and second moment: the tensors of a parameter.
constexpr size_t kKinds = 3;

/// Which data rank writes each tensor (kKinds for each parameter, in order): the one with the
/// fewest bytes so far, so that they share the work. -1: not this group of data ranks.
std::vector<int> writers(Engine& engine) {
  std::vector<int64_t> bytes(static_cast<size_t>(engine.mesh().layout().data), 0);
  std::vector<int> writers;
  for (const parameters::Parameter& parameter : engine.parameters().all()) {
    for (size_t kind = 0; kind < kKinds; ++kind) {
      if (!is_written_by_group(engine, parameter, writers.size())) {
        writers.push_back(-1);
        continue;
      }
      const auto least = std::ranges::min_element(bytes);
      writers.push_back(static_cast<int>(least - bytes.begin()));
      *least += parameter.local_elements() * bytes_of(engine.settings().masters);
    }
  }
  return writers;
}

}  // namespace

std::vector<checkpoint::TensorSource> state_tensors(Engine& engine, SpreadState& spread) {
  std::vector<checkpoint::TensorSource> tensors;
  const std::vector<int> writer_of = writers(engine);
  size_t i = 0;
  for (const parameters::Parameter& parameter : engine.parameters().all()) {
    const auto add = [&](const std::string& name, size_t kind, auto tensor) {
      const int writer = writer_of[kKinds * i + kind];
      if (writer < 0) return;
      const ConstView view = (spread.*tensor)(i, writer);
      if (engine.mesh().at().data != writer) return;
      tensors.push_back(
          {name, view, checkpoint::Cut{parameter.shape(), parameter.declaration().shard}});
    };
    add(parameter.name(), 0, &SpreadState::master);
    add(kFirstMoment + parameter.name(), 1, &SpreadState::first_moment);
    add(kSecondMoment + parameter.name(), 2, &SpreadState::second_moment);
    ++i;
  }
  return tensors;
}

std::vector<int64_t> state_sizes(Engine& engine) {
  std::vector<int64_t> sizes;
  size_t tensor = 0;
  const std::vector<int> writer_of = writers(engine);
  for (const parameters::Parameter& parameter : engine.parameters().all()) {
    for (size_t kind = 0; kind < kKinds; ++kind, ++tensor) {
      if (writer_of[tensor] == engine.mesh().at().data)
        sizes.push_back(parameter.local_elements() * bytes_of(engine.settings().masters));
    }
  }
  return sizes;
}

int64_t state_bytes(Engine& engine) {
  const std::vector<int64_t> sizes = state_sizes(engine);
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
}

nlohmann::json state_json(const Position& p, const Engine& engine,
                          const std::string& data_fingerprint) {
  nlohmann::json state = to_json(p);
  state["architecture"] = models::to_json(engine.settings().architecture);
  state["tensor_shards"] = engine.settings().split.tensor_shards;
  state["data_fingerprint"] = data_fingerprint;
  return state;
}

void load_state(const checkpoint::Reader& reader, Engine& engine) {
  const DType dtype = engine.settings().masters;
  SpreadState spread(engine);
  std::vector<std::byte> host;
  size_t i = 0;
  for (parameters::Parameter& parameter : engine.parameters().all()) {
    read(reader, parameter.name(), parameter, dtype, host);
    engine.parameters().load(engine.device(), parameter, host.data());
    read(reader, kFirstMoment + parameter.name(), parameter, dtype, host);
    spread.load(i, engine.optimizer().first_moment(i), host.data());
    read(reader, kSecondMoment + parameter.name(), parameter, dtype, host);
    spread.load(i, engine.optimizer().second_moment(i), host.data());
    ++i;
  }
}

}  // namespace megalith::train
