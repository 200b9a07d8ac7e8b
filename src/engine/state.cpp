// SPDX-License-Identifier: Apache-2.0
#include "engine/state.h"

#include <algorithm>
#include <numeric>

namespace megalith::engine {
namespace {

using parameters::Parameter;

/// What a checkpoint holds of products in 8 bits, of `count` of them.
struct ScaleArray {
  std::string name;
  precision::Operand operand;
  bool is_history;
  Shape shape;
};
std::vector<ScaleArray> scale_arrays(const Settings& settings, int64_t count) {
  using precision::Operand;
  std::vector<ScaleArray> arrays;
  const precision::ScalingOptions& scaling = settings.fp8->options.scaling;
  if (scaling.policy != precision::ScalingPolicy::delayed) return arrays;
  for (const auto& [operand, name] : {std::pair{Operand::input, "input"},
                                      {Operand::weight, "weight"},
                                      {Operand::output_gradient, "output_gradient"}}) {
    arrays.push_back(
        {fmt::format("fp8.{}.history", name), operand, true, {scaling.history, count}});
    arrays.push_back({fmt::format("fp8.{}.scale", name), operand, false, {count}});
  }
  return arrays;
}
std::vector<ScaleArray> scale_arrays(const Engine& engine) {
  if (engine.fp8() == nullptr) return {};
  return scale_arrays(engine.settings(), std::ssize(engine.fp8()->products()));
}
View scale_view(const Engine& engine, const ScaleArray& array) {
  const precision::Scaling& scaling = engine.fp8()->scaling(array.operand);
  return array.is_history ? scaling.history() : scaling.scale();
}

/// Into its place. IntegrityError if it is missing or has another shape.
void read_scales(const checkpoint::Reader& reader, const ScaleArray& array, Engine& engine) {
  const checkpoint::TensorInfo* info = reader.find(array.name);
  if (info == nullptr)
    throw IntegrityError("{}: tensor {} is missing", reader.folder().string(), array.name);
  if (info->shape != array.shape || info->dtype != DType::f32) {
    throw IntegrityError("{}: tensor {} is {} {}, the recipe's model has {} {}",
                         reader.folder().string(), array.name, info->dtype, info->shape, DType::f32,
                         array.shape);
  }
  std::vector<float> host(static_cast<size_t>(array.shape.num_elements()));
  reader.read(array.name, Shard::whole(array.shape), reinterpret_cast<std::byte*>(host.data()));
  device::Device& device = engine.device();
  device.wait(device.copy_to_device(scale_view(engine, array), host.data()));
}

/// The whole local part of a tensor; says of which type. Weights may be stored in another type than
/// this run keeps: what is frozen lies there as it was stored then.
DType read(const checkpoint::Reader& reader, const StateTensor& tensor, const Parameter& parameter,
           std::vector<std::byte>& host) {
  const checkpoint::TensorInfo* info = reader.find(tensor.name);
  if (info == nullptr)
    throw IntegrityError("{}: tensor {} is missing", reader.folder().string(), tensor.name);
  const bool fits = info->dtype == tensor.dtype || !parameter.trainable();
  if (info->shape != parameter.shape() || !fits) {
    throw IntegrityError("{}: tensor {} is {} {}, the recipe's model has {} {}",
                         reader.folder().string(), tensor.name, info->dtype, info->shape,
                         tensor.dtype, parameter.shape());
  }
  host.resize(static_cast<size_t>(parameter.local_elements() * bytes_of(info->dtype)));
  reader.read(tensor.name, parameter.declaration().shard, host.data());
  return info->dtype;
}

/// UserError when a parameter that trains has weights there, but nothing of the optimizer's.
void require_trained(const checkpoint::Reader& reader, const Parameter& parameter) {
  const auto has = [&](const std::string& name) { return reader.find(name) != nullptr; };
  const auto is_kept = [&](const optim::OptimizerState& state) {
    return has(std::string(state.prefix) + parameter.name());
  };
  if (!has(parameter.name()) || std::ranges::any_of(optim::kAdamWStates, is_kept)) return;
  throw UserError(
      "{}: {} was frozen when this was saved and has no optimizer state to go on with; leave it in "
      "optimizer.frozen, or begin a new run with train.init: {}",
      reader.folder().string(), parameter.name(), reader.folder().string());
}

/// Whether one of the data ranks beside this place writes its piece: of the tensor ranks that hold
/// the same one does, and of stages that hold the same the first.
bool is_written_by_group(const Parameter& parameter, const parallel::Layout& layout,
                         const parallel::Coordinates& at, size_t turn) {
  const auto data = static_cast<size_t>(layout.data), tensor = static_cast<size_t>(layout.tensor);
  if (parameter.declaration().is_copy) return false;
  const bool is_cut = !parameter.declaration().shard.is_whole(parameter.shape());
  return is_cut || static_cast<size_t>(at.tensor) == turn / data % tensor;
}

/// Scales are whole everywhere: data ranks at the first place of the other axes share the work.
bool writes_scales(const parallel::Coordinates& at) { return at.tensor == 0 && at.pipeline == 0; }

/// In the order of saving, without writers.
std::vector<StateTensor> tensors_of(const parameters::ParameterSet& set, const Settings& settings) {
  std::vector<StateTensor> tensors;
  for (size_t i = 0; i < set.all().size(); ++i) {
    const Parameter& parameter = set.all()[i];
    if (settings.trains_beside_weights() && !parameter.declaration().is_added) continue;
    const auto add = [&](std::optional<size_t> optimizer, std::string name, DType dtype) {
      tensors.push_back(
          {i, optimizer, {}, std::move(name), dtype, parameter.local_elements() * bytes_of(dtype)});
    };
    const Format stored = parameter.declaration().format.value_or(plain_format(settings.weights));
    add({}, parameter.name(), parameter.trainable() ? settings.masters : dtype_of(stored));
    if (!parameter.trainable()) continue;
    for (size_t which = 0; which < optim::kAdamWStates.size(); ++which)
      add(which, std::string(optim::kAdamWStates[which].prefix) + parameter.name(),
          settings.masters);
  }
  if (!settings.fp8) return tensors;
  size_t which = 0;
  for (ScaleArray& array : scale_arrays(settings, std::ssize(settings.fp8_products()))) {
    StateTensor& tensor = tensors.emplace_back();
    tensor.scales = which++;
    tensor.bytes = array.shape.num_elements() * bytes_of(tensor.dtype);
    tensor.name = std::move(array.name);
  }
  return tensors;
}

}  // namespace

/// Each is written by the data rank with the fewest bytes so far, so that they share the work.
std::vector<StateTensor> state_list(const parameters::ParameterSet& set, const Settings& settings,
                                    const parallel::Coordinates& at) {
  std::vector<int64_t> bytes(static_cast<size_t>(settings.layout.data), 0);
  std::vector<StateTensor> tensors = tensors_of(set, settings);
  for (size_t turn = 0; turn < tensors.size(); ++turn) {
    StateTensor& tensor = tensors[turn];
    const bool is_written =
        tensor.scales ? writes_scales(at)
                      : is_written_by_group(set.all()[tensor.parameter], settings.layout, at, turn);
    if (!is_written) continue;
    const auto least = std::ranges::min_element(bytes);
    tensor.writer = static_cast<int>(least - bytes.begin());
    *least += tensor.bytes;
  }
  return tensors;
}

std::vector<int64_t> state_sizes(const Engine& engine) {
  std::vector<int64_t> sizes;
  for (const StateTensor& tensor : state_list(engine)) {
    if (tensor.writer == engine.mesh().at().data) sizes.push_back(tensor.bytes);
  }
  return sizes;
}

int64_t state_bytes(const Engine& engine) {
  const std::vector<int64_t> sizes = state_sizes(engine);
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
}

std::vector<checkpoint::TensorSource> state_tensors(Engine& engine, ShardedOptimizerState& spread) {
  std::vector<checkpoint::TensorSource> sources;
  const std::vector<ScaleArray> scales = scale_arrays(engine);
  engine.parameters().derive(engine.model().exec());  // what follows is saved as it follows
  for (const StateTensor& tensor : state_list(engine)) {
    if (tensor.writer < 0) continue;
    if (tensor.scales) {
      const ScaleArray& array = scales[*tensor.scales];
      if (engine.mesh().at().data == tensor.writer) {
        sources.push_back({tensor.name, scale_view(engine, array),
                           checkpoint::Cut{array.shape, Shard::whole(array.shape)}});
      }
      continue;
    }
    const ConstView view =
        tensor.optimizer
            ? spread.optimizer_state(tensor.parameter, *tensor.optimizer, tensor.writer)
            : spread.weights(tensor.parameter, tensor.writer);
    if (engine.mesh().at().data != tensor.writer) continue;
    const Parameter& parameter = engine.parameters().all()[tensor.parameter];
    sources.push_back(
        {tensor.name, view, checkpoint::Cut{parameter.shape(), parameter.declaration().shard}});
  }
  return sources;
}

void load_state(const checkpoint::Reader& reader, Engine& engine) {
  ShardedOptimizerState spread(engine);
  std::vector<std::byte> host;
  const std::vector<ScaleArray> scales = scale_arrays(engine);
  for (const StateTensor& tensor : state_list(engine)) {
    if (tensor.scales) {
      read_scales(reader, scales[*tensor.scales], engine);
      continue;
    }
    const size_t i = tensor.parameter;
    Parameter& parameter = engine.parameters().all()[i];
    if (parameter.trainable() && !tensor.optimizer) require_trained(reader, parameter);
    const DType dtype = read(reader, tensor, parameter, host);
    if (tensor.optimizer) {
      spread.load(i, engine.optimizer().states(i)[*tensor.optimizer], host.data());
    } else {
      engine.parameters().load(engine.device(), parameter, dtype, host.data());
    }
  }
  if (engine.fp8() != nullptr) engine.fp8()->restored();
  // Here, where nothing else is in workspace, as behind a step.
  engine.parameters().derive(engine.model().exec());
}

}  // namespace megalith::engine
