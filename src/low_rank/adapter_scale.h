// SPDX-License-Identifier: Apache-2.0
// What scales the outputs of an adapter with magnitudes (DoRA; layers/adapter.h), computed once its
// factors are loaded: magnitude / norm of the row of w + b a, with the bits of training
// (magnitudes.h).
#pragma once

#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "layers/adapter.h"

namespace megalith::low_rank {

/// Of one weight, in host memory: the rank's part.
struct AdapterMagnitudes {
  std::vector<float> a_RI, b_RO;          // row major; the scale is in b
  std::vector<std::optional<float>> m_O;  // none: an output of no module, which is not scaled
};
/// Sets scale_O of the adapter's factors of `weight`, which has been loaded; 0 where a row's norm
/// is 0. Collective over the tensor ranks; ready on return.
void set_scale(kernels::Exec& exec, comm::Communicator& tensor, const parameters::Parameter& weight,
               const AdapterMagnitudes& magnitudes, layers::Adapter& adapter);
/// The same with zeros for factors, for a plan: for all weights of `set` that have magnitudes.
void plan_scales(kernels::Exec& exec, comm::Communicator& tensor,
                 const parameters::ParameterSet& set, const layers::AdapterRanks& ranks,
                 layers::Adapter& adapter);

}  // namespace megalith::low_rank
