// SPDX-License-Identifier: Apache-2.0
#include "testing/layer_case.h"

#include <algorithm>
#include <numeric>

#include "comm/backends.h"
#include "engine/losses.h"
#include "families/families.h"
#include "math/random.h"
#include "testing/gradient_check.h"

namespace megalith::testing {

engine::Settings tiny_f64_settings() {
  engine::Settings settings = toy_settings();
  settings.model = models::gpt2(
      {.layers = 2, .hidden = 16, .heads = 4, .kv_heads = 2, .ffn = 24, .context = 8, .vocab = 20});
  settings.model.dropout = 0.1;
  settings.model.init_std = 0.1;
  settings.split = {2, 1};
  settings.ragged = true;
  settings.masters = settings.weights = settings.activations = DType::f64;
  settings.z_loss = 0.05;
  return settings;
}

namespace {

/// With room for more sequences than there are, where losses are of sequences.
engine::DeviceBatch::Sizes sizes_of(const engine::Settings& settings,
                                    const data::HostBatch& batch) {
  const engine::LossValues losses(settings);
  return {.max_sequences = std::max(batch.num_sequences(), losses.max_sequences(batch)),
          .losses = losses.shape(),
          .predicted_per_sample = losses.predicted_per_sample(),
          .token_types = settings.model.embedding.token_types > 0};
}

}  // namespace

LayerCase::LayerCase(const engine::Settings& settings, int64_t samples, const LayerRank& rank)
    : settings_(settings),
      own_device_(rank.device == nullptr ? device::make_cpu_device(1) : nullptr),
      exec_(rank.device == nullptr ? *own_device_ : *rank.device),
      alone_(rank.tensor == nullptr ? comm::make_self_communicator(exec_.device) : nullptr),
      tensor_(rank.tensor == nullptr ? alone_.get() : rank.tensor),
      sequence_(rank.sequence),
      set_(settings.declaration_rule()),
      host_batch_(toy_batch(settings, 0, samples)),
      device_batch_(std::make_unique<engine::DeviceBatch>(exec_.device, host_batch_,
                                                          sizes_of(settings, host_batch_),
                                                          host_batch_.total_weight, token_part())) {
}

engine::DeviceBatch::TokenPart LayerCase::token_part() const {
  if (!sequence_) return {};
  return {tensor_->rank(), tensor_->size()};
}

layers::Partition LayerCase::partition() const {
  const int partials = settings_.token_partials();
  return {settings_.split.tensor_shards,
          tensor_->size(),
          tensor_->rank(),
          sequence_ ? exact_div(partials, tensor_->size()) : partials,
          sequence_,
          settings_.factors ? &settings_.factors : nullptr,
          &settings_.virtual_tokens};
}

layers::Context LayerCase::context() {
  return {.exec = exec_,
          .tensor = *tensor_,
          .tensor_shards = settings_.split.tensor_shards,
          .activation = settings_.activations,
          .accumulation = settings_.masters,
          .step_key = random_key(settings_.seed, uint64_t{3}),
          .dropout = settings_.model.dropout,
          .sequence = sequence_};
}

namespace {

/// Element i = offset + deviation * normal of number(i), in the view's type.
template <class Number>
void fill(device::Device& device, View view, const std::string& name, double offset,
          double deviation, const Number& number) {
  const uint64_t key = random_key(99, name);
  std::vector<std::byte> host(static_cast<size_t>(view.bytes()));
  for (int64_t i = 0; i < view.num_elements(); ++i) {
    const double x = offset + deviation * normal(key, static_cast<uint64_t>(number(i)));
    if (view.dtype() == DType::f64) {
      reinterpret_cast<double*>(host.data())[i] = x;
    } else if (view.dtype() == DType::f32) {
      reinterpret_cast<float*>(host.data())[i] = static_cast<float>(x);
    } else if (view.dtype() == DType::f16) {
      reinterpret_cast<f16_t*>(host.data())[i] = to_f16(static_cast<float>(x));
    } else {
      MEGA_CHECK_EQ(view.dtype(), DType::bf16);
      reinterpret_cast<bf16_t*>(host.data())[i] = to_bf16(static_cast<float>(x));
    }
  }
  device.wait(device.copy_to_device(view, host.data()));
}

}  // namespace

void LayerCase::place() {
  set_.allocate(device(), {settings_.masters, settings_.weights, true, 1});
  for (const parameters::Parameter& parameter : set_.all()) {
    const bool ones = parameter.declaration().init.kind == parameters::Init::Kind::ones;
    std::vector<int64_t> number(static_cast<size_t>(parameter.local_elements()));
    parameter.declaration().shard.for_each_run(
        parameter.shape(), [&](int64_t from, int64_t to, int64_t count) {
          std::iota(number.begin() + to, number.begin() + to + count, from);
        });
    fill(device(), parameter.master(), parameter.name(), ones ? 1 : 0, 0.3,
         [&](int64_t i) { return number[static_cast<size_t>(i)]; });
  }
  set_.refresh_compute(device());
  zero_gradients();
}

void LayerCase::zero_gradients() { set_.zero_gradient_sums(device(), 0); }

device::Tensor LayerCase::tensor(const Shape& shape) {
  return exec_.workspace.tensor(settings_.activations, shape);
}

device::Tensor LayerCase::random(const Shape& shape, const std::string& name) {
  device::Tensor result = tensor(shape);
  fill(device(), result, name, 0, 1, [](int64_t i) { return i; });
  return result;
}

device::Tensor LayerCase::random_rows(const layers::Batch& batch, int64_t columns,
                                      const std::string& name) {
  device::Tensor result = tensor(Shape{batch.own.count, columns});
  const int64_t each = batch.own.per_sample, length = each * token_part().count;
  fill(device(), result, name, 0, 1, [&](int64_t i) {
    const int64_t row = i / columns;
    const int64_t logical = row / each * length + token_part().index * each + row % each;
    return logical * columns + i % columns;
  });
  return result;
}

void LayerCase::for_each_further_use(size_t parameter, FunctionRef<void(const View&)> body) const {
  for (size_t shared = 0; shared < set_.shared().size(); ++shared) {
    const parameters::SharedWeights& weights = set_.shared()[shared];
    if (parameter < weights.parameters.begin || parameter >= weights.parameters.end) continue;
    const int64_t begin =
        set_.gradient_begin(parameter) - set_.gradient_begin(weights.parameters.begin);
    const int64_t count = set_.all()[parameter].gradient_sum().num_elements();
    for (size_t use = 1; use < weights.uses.size(); ++use)
      body(set_.use_sums(shared, use).rows(begin, count));
  }
}

std::vector<std::string> LayerCase::parameter_faults(FunctionRef<double()> value) {
  std::vector<std::string> faults;
  size_t index = 0;
  for (const parameters::Parameter& parameter : set_.all()) {
    if (!parameter.trainable()) {
      ++index;
      continue;
    }
    // All buffers, uses and partial rows together are the gradient.
    const int64_t elements = parameter.local_elements();
    const device::Tensor sum = exec_.workspace.tensor(DType::f64, Shape{elements});
    device().fill_zero(sum);
    const auto add = [&](const View& part) {
      for (int64_t i = 0; i < part.num_elements(); ++i)
        sum.view.as<double>()[i % elements] += part.as<double>()[i];
    };
    for (int which = 0; which < parameter.num_gradients(); ++which)
      add(parameter.gradient_sum(which));
    for_each_further_use(index++, add);
    const auto found =
        gradient_faults(parameter.name(), parameter.master().reshape(Shape{elements}), sum, value);
    faults.insert(faults.end(), found.begin(), found.end());
  }
  return faults;
}

double dot(ConstView a, ConstView b) {
  MEGA_CHECK_EQ(a.num_elements(), b.num_elements());
  double sum = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) sum += a.as<double>()[i] * b.as<double>()[i];
  return sum;
}

}  // namespace megalith::testing
