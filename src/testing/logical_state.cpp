// SPDX-License-Identifier: Apache-2.0
#include "testing/logical_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/file.h"
#include "checkpoint/state_digest.h"

namespace megalith::testing {

void LogicalState::add(engine::Engine& engine) {
  engine.complete_weights();
  device::Device& device = engine.device();
  size_t index = 0;
  for (const parameters::Parameter& parameter : engine.parameters().all()) {
    const auto put = [&](std::string_view kind, ConstView view) {
      std::vector<std::byte> local(static_cast<size_t>(view.bytes()));
      device.wait(device.copy_to_host(local.data(), view));
      const bool whole = view.num_elements() == parameter.local_elements();
      add(fmt::format("{}/{}", kind, parameter.name()), view.dtype(), parameter.shape(),
          parameter.declaration().shard, local.data(),
          whole ? parameters::ElementRange{0, parameter.local_elements()} : parameter.owned());
    };
    if (is_plain(parameter.format())) put("weight", parameter.compute());  // blocks stay
    if (parameter.trainable()) {
      put("master", parameter.owned_master());
      const auto states = engine.optimizer().states(index);
      for (size_t which = 0; which < states.size(); ++which)
        put(optim::kAdamWStates[which].title, states[which]);
    }
    ++index;
  }
  add_scales(engine);
}

/// Whole on every rank.
void LogicalState::add_scales(engine::Engine& engine) {
  if (engine.fp8() == nullptr) return;
  int operand_number = 0;
  for (const auto operand : {precision::Operand::input, precision::Operand::weight,
                             precision::Operand::output_gradient}) {
    const precision::Scaling& scaling = engine.fp8()->scaling(operand);
    for (const View& view : {scaling.history(), scaling.scale()}) {
      if (view.absent()) continue;
      std::vector<std::byte> host(static_cast<size_t>(view.bytes()));
      engine.device().wait(engine.device().copy_to_host(host.data(), view));
      add(fmt::format("scales {}/{}", operand_number, view.shape().num_dims()), view.dtype(),
          view.shape(), Shard::whole(view.shape()), host.data());
    }
    ++operand_number;
  }
}

void LogicalState::add(const std::string& name, DType dtype, const Shape& shape, const Shard& shard,
                       const void* local) {
  add(name, dtype, shape, shard, local, {0, shard.local_shape(shape).num_elements()});
}

void LogicalState::add(const std::string& name, DType dtype, const Shape& shape, const Shard& shard,
                       const void* run, const parameters::ElementRange& range) {
  const std::lock_guard lock(mutex_);
  Whole& whole = tensors_[name];
  const auto elements = static_cast<size_t>(shape.num_elements());
  const auto size = static_cast<size_t>(bytes_of(dtype));
  if (whole.present.empty()) {
    whole = {dtype, shape, std::vector<std::byte>(elements * size), std::vector<bool>(elements)};
  }
  MEGA_CHECK(whole.dtype == dtype && whole.shape == shape, "{} put in as {} {}, then as {} {}",
             name, whole.dtype, whole.shape, dtype, shape);
  const auto* const held = static_cast<const std::byte*>(run);
  bool agree = true;
  shard.for_each_run(shape, [&](int64_t global, int64_t local, int64_t count) {
    const int64_t begin = std::max(local, range.begin);
    const int64_t end = std::min(local + count, range.begin + range.count);
    for (int64_t element = begin; element < end && agree; ++element) {
      const auto at = static_cast<size_t>(global + element - local);
      const std::byte* const from = held + static_cast<size_t>(element - range.begin) * size;
      std::byte* const to = whole.bytes.data() + at * size;
      agree = !whole.present[at] || std::memcmp(to, from, size) == 0;
      if (!agree)
        return disagreements_.push_back(fmt::format("ranks disagree on {}[{}]", name, at));
      std::memcpy(to, from, size);
      whole.present[at] = true;
    }
  });
}

std::vector<std::string> LogicalState::faults() const {
  std::vector<std::string> faults = disagreements_;
  for (const auto& [name, whole] : tensors_) {
    const auto missing = std::ranges::find(whole.present, false);
    if (missing != whole.present.end()) {
      faults.push_back(fmt::format("nobody holds {}[{}]", name, missing - whole.present.begin()));
    }
  }
  return faults;
}

std::string LogicalState::digest() const {
  checkpoint::StateDigest digest;
  for (const auto& [name, whole] : tensors_) {
    Sha256 hash;
    hash.update(whole.bytes.data(), whole.bytes.size());
    digest.add(name, whole.dtype, whole.shape, hash.finish());
  }
  return digest.finish();
}

std::string difference(const LogicalState& a, const LogicalState& b) {
  for (const auto& [name, left] : a.tensors_) {
    const auto found = b.tensors_.find(name);
    if (found == b.tensors_.end()) return fmt::format("{} is missing on the right", name);
    const LogicalState::Whole& right = found->second;
    if (left.dtype != right.dtype || left.shape != right.shape) {
      return fmt::format("{} is {} {} and {} {}", name, left.dtype, left.shape, right.dtype,
                         right.shape);
    }
    const auto [at, other] = std::ranges::mismatch(left.bytes, right.bytes);
    if (at != left.bytes.end()) {
      const auto element = (at - left.bytes.begin()) / bytes_of(left.dtype);
      return fmt::format("{}[{}] differs", name, element);
    }
  }
  for (const auto& [name, right] : b.tensors_) {
    if (!a.tensors_.contains(name)) return fmt::format("{} is missing on the left", name);
  }
  return {};
}

}  // namespace megalith::testing
