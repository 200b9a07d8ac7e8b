// SPDX-License-Identifier: Apache-2.0
#include "engine/not_finite.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "device/recorder.h"
#include "kernels/reduction/norms.h"

namespace megalith::engine {
namespace {

bool all_finite(device::Device& device, ConstView x) {
  if (x.absent() || x.num_elements() == 0) return true;
  if (!x.is_contiguous()) {
    for (int64_t row = 0; row < x.size(0); ++row) {
      if (!all_finite(device, x.rows(row, 1))) return false;
    }
    return true;
  }
  kernels::Exec exec(device);
  const device::Tensor flag = exec.workspace.tensor(DType::i32, Shape{1});
  kernels::all_finite(exec, {x.reshape(Shape{x.num_elements()}), flag});
  int32_t finite = 0;
  device.wait(device.copy_to_host(&finite, flag.view));
  return finite == 1;
}

std::optional<std::string> bad_input(const LossValues& losses,
                                     std::span<const data::HostBatch> micro_batches,
                                     double global_weight) {
  if (!(global_weight > 0) || !std::isfinite(global_weight)) {
    return fmt::format("the input: the loss weights of the step's samples sum to {}",
                       global_weight);
  }
  for (const data::HostBatch& batch : micro_batches) {
    for (size_t u = 0; u < batch.loss_weight_T.size(); ++u) {
      if (!std::isfinite(batch.loss_weight_T[u])) {
        return fmt::format("the input: the loss weight of {} is {}", losses.name(batch, u),
                           batch.loss_weight_T[u]);
      }
    }
  }
  return std::nullopt;
}

/// What of parameter `index` is not finite.
std::optional<std::string> bad_parameter(Engine& engine, size_t index) {
  device::Device& device = engine.device();
  const parameters::Parameter& parameter = engine.parameters().all()[index];
  if (!is_plain(parameter.format())) return std::nullopt;  // blocks stay as they came
  if (parameter.trainable()) {  // first: the update spreads a bad moment to its weight
    const auto states = engine.optimizer().states(index);
    for (size_t which = 0; which < states.size(); ++which) {
      if (!all_finite(device, states[which]))
        return fmt::format("{} of {}", optim::kAdamWStates[which].title, parameter.name());
    }
  }
  if (!all_finite(device, parameter.owned_master()) || !all_finite(device, parameter.compute()))
    return "weight " + parameter.name();
  return std::nullopt;
}

/// The first parameter or state of the optimizer that is not finite.
std::optional<std::string> bad_state(Engine& engine) {
  for (size_t i = 0; i < engine.parameters().all().size(); ++i) {
    if (const auto bad = bad_parameter(engine, i)) return bad;
  }
  return std::nullopt;
}

/// The first parameter that the last update left not finite, or nothing.
std::optional<size_t> bad_update(Engine& engine) {
  std::vector<int32_t> finite(engine.parameters().all().size());
  device::Device& device = engine.device();
  device.wait(device.copy_to_host(finite.data(), engine.optimizer().finite_P()));
  const auto bad = std::ranges::find_if(finite, [](int32_t flag) { return flag != 1; });
  if (bad == finite.end()) return std::nullopt;
  return static_cast<size_t>(bad - finite.begin());
}

constexpr std::string_view kLoss = "loss of ";
constexpr std::string_view kParameterGradient = "gradient of ";

/// The first unit whose loss counts and is not finite. Finite logits can be further apart than
/// the largest number; their gradients are finite all the same.
std::optional<std::string> bad_loss(const LossValues& losses,
                                    std::span<const data::HostBatch> micro_batches,
                                    std::span<const double> loss_U) {
  if (loss_U.empty()) return std::nullopt;  // not the last stage
  size_t begin = 0;
  for (const data::HostBatch& batch : micro_batches) {
    for (size_t u = 0; u < batch.loss_weight_T.size(); ++u) {
      if (batch.loss_weight_T[u] == 0 || std::isfinite(loss_U[begin + u])) continue;
      return fmt::format("{}{}", kLoss, losses.name(batch, u));
    }
    const size_t end = begin + static_cast<size_t>(losses.count(batch));
    for (int64_t pair = 0; pair < losses.num_pairs(batch); ++pair) {
      if (std::isfinite(loss_U[end - static_cast<size_t>(losses.num_pairs(batch) - pair)]))
        continue;
      return fmt::format("{}the sentence pair of sample {}", kLoss, batch.first_sample + pair);
    }
    begin = end;
  }
  return std::nullopt;
}

/// Backward fills gradients from the last layer to the first.
std::optional<std::string> bad_gradient(Engine& engine) {
  const auto& all = engine.parameters().all();
  for (auto parameter = all.rbegin(); parameter != all.rend(); ++parameter) {
    if (!all_finite(engine.device(), parameter->gradient()))
      return fmt::format("{}{}", kParameterGradient, parameter->name());
  }
  return std::nullopt;
}

/// Names scopes while it lives: they are off in a run.
class Scopes {
 public:
  explicit Scopes(device::Device& device) : device_(device), before_(device.recorder()) {
    device.set_recorder(&recorder_);
  }
  ~Scopes() { device_.set_recorder(before_); }
  Scopes(const Scopes&) = delete;
  Scopes& operator=(const Scopes&) = delete;
  std::string full_name(std::string_view name) const {
    const std::string& scope = recorder_.scope();
    return scope.empty() ? std::string(name) : fmt::format("{}.{}", scope, name);
  }

 private:
  device::Device& device_;
  device::Recorder* before_;
  device::Recorder recorder_;
};

std::optional<std::string> found_here(Engine& engine, int64_t step,
                                      std::span<const data::HostBatch> micro_batches,
                                      double global_weight) {
  const LossValues& losses = engine.losses();
  const auto early = bad_input(losses, micro_batches, global_weight);
  const auto state = early ? early : bad_state(engine);
  std::optional<std::string> activation, gradient, loss;
  {
    const Scopes scopes(engine.device());
    const auto inspect = [&](std::string_view name, ConstView value) {
      const bool backward = name.ends_with("gradient");
      std::optional<std::string>& found = backward ? gradient : activation;
      if (found || all_finite(engine.device(), value)) return;
      found = fmt::format("{} {}", backward ? "gradient" : "activation", scopes.full_name(name));
    };
    // On every rank, whatever was found: the replay is collective.
    loss =
        bad_loss(losses, micro_batches, engine.replay(step, micro_batches, global_weight, inspect));
  }
  for (const auto& found : {state, activation, loss, gradient}) {
    if (found) return found;
  }
  return bad_gradient(engine);
}

/// Which comes first in a step: input and state, activations, losses, gradients of activations;
/// then those of parameters, which after their reduction all data ranks hold, healthy ones too.
enum class Order { state, activation, loss, gradient, parameter_gradient, none };
Order order_of(const std::string& found) {
  if (found.empty()) return Order::none;
  if (found.starts_with(kParameterGradient)) return Order::parameter_gradient;
  if (found.starts_with("gradient")) return Order::gradient;
  if (found.starts_with(kLoss)) return Order::loss;
  return found.starts_with("activation") ? Order::activation : Order::state;
}

}  // namespace

std::string first_not_finite(Engine& engine, int64_t step,
                             std::span<const data::HostBatch> micro_batches, double global_weight) {
  const auto mine = found_here(engine, step, micro_batches, global_weight);
  const std::vector<std::string> all =
      engine.mesh().world().exchange(mine.value_or(""), "step.not_finite");
  // What was there before the step comes first. Forward runs from the first stage to the last,
  // backward the other way.
  auto first = all.begin();
  for (auto it = all.begin(); it != all.end(); ++it) {
    const Order order = order_of(*it), before = order_of(*first);
    if (order < before || (order >= Order::gradient && order == before)) first = it;
  }
  if (first->empty()) return "nothing on a second run: a machine that computes wrongly";
  if (all.size() == 1) return *first;
  return fmt::format("{} on rank {}", *first, first - all.begin());
}

bool update_is_finite(Engine& engine) { return !bad_update(engine); }

void refuse_update(Engine& engine, int64_t step) {
  std::string mine;
  if (const auto index = bad_update(engine)) {
    mine = bad_parameter(engine, *index)
               .value_or("what was written of " + engine.parameters().all()[*index].name());
  }
  const std::vector<std::string> all = engine.mesh().world().exchange(mine, "state.not_finite");
  const auto first = std::ranges::find_if(all, [](const auto& text) { return !text.empty(); });
  MEGA_CHECK(first != all.end());
  throw DoNotRestartError(
      "step {}: {}{} is not finite after the update; lower optimizer.lr; it is not saved, the "
      "last checkpoint is kept",
      step, *first, all.size() > 1 ? fmt::format(" on rank {}", first - all.begin()) : "");
}

}  // namespace megalith::engine
