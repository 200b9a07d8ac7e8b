// SPDX-License-Identifier: Apache-2.0
#include "optim/adamw.h"

#include <algorithm>

#include "base/integer.h"
#include "kernels/optimizer/adamw.h"

namespace megalith::optim {

bool matches(std::string_view glob, std::string_view name) {
  // Greedy with one point of return: the last star, and where in the name it began.
  size_t g = 0, n = 0, star = std::string_view::npos, from = 0;
  while (n < name.size()) {
    if (g < glob.size() && (glob[g] == '?' || glob[g] == name[n]) && glob[g] != '*') {
      ++g;
      ++n;
    } else if (g < glob.size() && glob[g] == '*') {
      star = g++;
      from = n;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      n = ++from;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

const ParameterGroup* group_of(std::span<const ParameterGroup> groups, std::string_view name) {
  for (const ParameterGroup& group : groups) {
    if (matches(group.match, name)) return &group;
  }
  return nullptr;
}

double lr_scale_of(const AdamWOptions& options, std::string_view name) {
  const ParameterGroup* const group = group_of(options.groups, name);
  const auto depth = std::ranges::find_if(
      options.depths, [&](const DepthScale& one) { return name.starts_with(one.prefix); });
  return (group == nullptr ? 1 : group->lr_scale) *
         (depth == options.depths.end() ? 1 : depth->lr_scale);
}

parameters::DeclarationRule freezing_rule(std::vector<std::string> frozen) {
  return [frozen = std::move(frozen)](parameters::Declaration& declaration) {
    for (const std::string& glob : frozen) {
      if (matches(glob, declaration.name)) declaration.trainable = false;
    }
  };
}

AdamW::AdamW(parameters::ParameterSet& set, device::Device& device, const AdamWOptions& options)
    : set_(&set), options_(options) {
  constexpr int64_t kElementAlignment = 16;
  int64_t elements = 0;
  for (const auto& parameter : set.all())
    elements += round_up(parameter.owned().count, kElementAlignment);
  const DType dtype = set.storage().master;
  device::Arena& arena = device.arena(device::MemoryClass::optimizer);
  moments_m_ = arena.tensor(dtype, Shape{elements});
  moments_v_ = arena.tensor(dtype, Shape{elements});
  device.fill_zero(moments_m_);
  device.fill_zero(moments_v_);
  const std::vector<int32_t> all_finite(set.all().size(), 1);
  finite_P_ = arena.tensor(DType::i32, Shape{static_cast<int64_t>(all_finite.size())});
  device.wait(device.copy_to_device(finite_P_, all_finite.data()));
  int64_t offset = 0;
  for (const auto& parameter : set.all()) {
    Slot slot{{},
              {},
              lr_scale_of(options, parameter.name()),
              parameter.is_matrix() ? options.weight_decay : 0.0};
    if (const ParameterGroup* group = group_of(options.groups, parameter.name()))
      slot.weight_decay = group->weight_decay.value_or(slot.weight_decay);
    if (!parameter.trainable()) {
      slots_.push_back(slot);
      continue;
    }
    const Shape shape =
        parameter.owns_all() ? parameter.local_shape() : Shape{parameter.owned().count};
    const auto part = [&](const device::Tensor& flat) {
      return View(flat.view.data() + offset * bytes_of(dtype), dtype, shape);
    };
    slot.m = part(moments_m_);
    slot.v = part(moments_v_);
    slots_.push_back(slot);
    offset += round_up(parameter.owned().count, kElementAlignment);
  }
}

void AdamW::update(kernels::Exec& exec, int64_t step, double lr, ConstView gradient_scale,
                   ConstView apply) {
  const device::NameScope scope(exec.device, "optimizer");
  size_t i = 0;
  for (parameters::Parameter& parameter : set_->all()) {
    const auto index = static_cast<int64_t>(i++);
    if (!parameter.trainable()) continue;
    const Slot& slot = slots_[static_cast<size_t>(index)];
    const Shape owned{parameter.owned().count};
    kernels::adamw(exec, {.w_N = parameter.owned_master(),
                          .m_N = slot.m.reshape(owned),
                          .v_N = slot.v.reshape(owned),
                          .g_N = parameter.owned_part(parameter.gradient()),
                          .gradient_scale = gradient_scale,
                          .apply = apply,
                          .compute_N = parameter.compute_is_master()
                                           ? View{}
                                           : parameter.owned_part(parameter.mutable_compute()),
                          .finite = finite_P_.view.rows(index, 1),
                          .lr = lr * slot.lr_scale,
                          .beta1 = options_.beta1,
                          .beta2 = options_.beta2,
                          .eps = options_.eps,
                          .weight_decay = slot.weight_decay,
                          .step = step});
    parameter.mark_changed();
  }
}

}  // namespace megalith::optim
