// SPDX-License-Identifier: Apache-2.0
#include "engine/state.h"

#include <algorithm>
#include <numeric>

namespace megalith::engine {
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

/// Whether one of the data ranks beside this place writes its piece: of the tensor ranks that hold
/// the same one does, and of the two stages that hold a tied table the first.
bool is_written_by_group(const parameters::Parameter& parameter, const parallel::Layout& layout,
                         const parallel::Coordinates& at, size_t turn) {
  const auto data = static_cast<size_t>(layout.data), tensor = static_cast<size_t>(layout.tensor);
  const bool is_tied = parameter.num_gradients() > 1;
  if (is_tied && at.pipeline != 0) return false;
  const bool is_cut = !parameter.declaration().shard.is_whole(parameter.shape());
  return is_cut || static_cast<size_t>(at.tensor) == turn / data % tensor;
}

/// Parameter, then first and second moment: the tensors of a parameter.
constexpr size_t kKinds = 3;

}  // namespace

/// The data rank with the fewest bytes so far, so that they share the work.
std::vector<int> state_writers(const parameters::ParameterSet& set, const Settings& settings,
                               const parallel::Coordinates& at) {
  std::vector<int64_t> bytes(static_cast<size_t>(settings.layout.data), 0);
  std::vector<int> writers;
  for (const parameters::Parameter& parameter : set.all()) {
    for (size_t kind = 0; kind < kKinds; ++kind) {
      if (!is_written_by_group(parameter, settings.layout, at, writers.size())) {
        writers.push_back(-1);
        continue;
      }
      const auto least = std::ranges::min_element(bytes);
      writers.push_back(static_cast<int>(least - bytes.begin()));
      *least += parameter.local_elements() * bytes_of(settings.masters);
    }
  }
  return writers;
}

namespace {

/// Bytes of each tensor that the rank at this place writes, in order.
std::vector<int64_t> sizes_at(const parameters::ParameterSet& set, const Settings& settings,
                              const parallel::Coordinates& at) {
  std::vector<int64_t> sizes;
  size_t tensor = 0;
  const std::vector<int> writer_of = state_writers(set, settings, at);
  for (const parameters::Parameter& parameter : set.all()) {
    for (size_t kind = 0; kind < kKinds; ++kind, ++tensor) {
      if (writer_of[tensor] == at.data)
        sizes.push_back(parameter.local_elements() * bytes_of(settings.masters));
    }
  }
  return sizes;
}

}  // namespace

std::vector<int64_t> state_sizes(const Engine& engine) {
  return sizes_at(engine.parameters(), engine.settings(), engine.mesh().at());
}

int64_t state_bytes(const parameters::ParameterSet& set, const Settings& settings,
                    const parallel::Coordinates& at) {
  const std::vector<int64_t> sizes = sizes_at(set, settings, at);
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
}

int64_t state_bytes(const Engine& engine) {
  return state_bytes(engine.parameters(), engine.settings(), engine.mesh().at());
}

std::vector<checkpoint::TensorSource> state_tensors(Engine& engine, ShardedOptimizerState& spread) {
  std::vector<checkpoint::TensorSource> tensors;
  const std::vector<int> writer_of =
      state_writers(engine.parameters(), engine.settings(), engine.mesh().at());
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
    add(parameter.name(), 0, &ShardedOptimizerState::master);
    add(kFirstMoment + parameter.name(), 1, &ShardedOptimizerState::first_moment);
    add(kSecondMoment + parameter.name(), 2, &ShardedOptimizerState::second_moment);
    ++i;
  }
  return tensors;
}

void load_state(const checkpoint::Reader& reader, Engine& engine) {
  const DType dtype = engine.settings().masters;
  ShardedOptimizerState spread(engine);
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

}  // namespace megalith::engine
