// SPDX-License-Identifier: Apache-2.0
#include "low_rank/adapter_scale.h"

#include "low_rank/row_norms.h"

namespace megalith::low_rank {
namespace {

device::Tensor placed(kernels::Exec& exec, const std::vector<float>& values, int64_t columns) {
  device::Tensor made =
      exec.workspace.tensor(DType::f32, Shape{exact_div(std::ssize(values), columns), columns});
  exec.device.wait(exec.device.copy_to_device(made, values.data()));
  return made;
}

}  // namespace

void set_scale(kernels::Exec& exec, comm::Communicator& tensor, const parameters::Parameter& weight,
               const AdapterMagnitudes& magnitudes, layers::Adapter& adapter) {
  const View scale_O = adapter.factors().find(weight.name())->second.scale_O;
  const Shape local = weight.local_shape();
  const auto& [a_RI, b_RO, m_O] = magnitudes;
  MEGA_CHECK_EQ(std::ssize(m_O), local[0]);
  const device::Tensor a = placed(exec, a_RI, local[1]), b = placed(exec, b_RO, local[0]);
  const bool is_row = weight.declaration().shard.dim == 1;
  row_norms(exec, tensor,
            {.w_OI = weight.compute(),
             .a_RI = a,
             .b_RO = b,
             .n_O = scale_O,
             .k_shards = is_row ? weight.local_canonical_shards() : 1,
             .sums = is_row},
            weight.name());
  if (exec.device.is_trace()) return;  // which has no values
  std::vector<float> scale(m_O.size());
  exec.device.wait(exec.device.copy_to_host(scale.data(), scale_O));
  for (size_t o = 0; o < scale.size(); ++o) {
    const float n = scale[o];
    scale[o] = !m_O[o] ? 1.0F : n == 0 ? 0.0F : *m_O[o] / n;
  }
  exec.device.wait(exec.device.copy_to_device(scale_O, scale.data()));
}

void plan_scales(kernels::Exec& exec, comm::Communicator& tensor,
                 const parameters::ParameterSet& set, const layers::AdapterRanks& ranks,
                 layers::Adapter& adapter) {
  for (const parameters::Parameter& weight : set.all()) {
    const auto found = ranks.find(weight.name());
    if (found == ranks.end() || !found->second.has_magnitudes) continue;
    const Shape local = weight.local_shape();
    const int64_t rank = found->second.rank;
    set_scale(exec, tensor, weight,
              {.a_RI = std::vector<float>(static_cast<size_t>(rank * local[1])),
               .b_RO = std::vector<float>(static_cast<size_t>(rank * local[0])),
               .m_O = std::vector<std::optional<float>>(static_cast<size_t>(local[0]))},
              adapter);
  }
}

}  // namespace megalith::low_rank
