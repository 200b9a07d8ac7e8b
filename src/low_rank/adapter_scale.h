// SPDX-License-Identifier: Apache-2.0
// What scales the outputs of an adapter with magnitudes (layers/adapter.h), made when its factors
// are there: magnitude / norm of the row of w + b a, as training has it (magnitudes.h).
#pragma once

#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "layers/adapter.h"

namespace megalith::low_rank {

/// Of one weight, on the host, for the rank's part.
struct AdapterMagnitudes {
  std::vector<float> a_RI, b_RO;          // the scale in b
  std::vector<std::optional<float>> m_O;  // none: of no module, which is not scaled
};
/// Sets scale_O of the adapter's factors of `weight`, whose values are loaded. Collective over the
/// tensor ranks; ready on return.
void set_scale(kernels::Exec& exec, comm::Communicator& tensor, const parameters::Parameter& weight,
               const AdapterMagnitudes& magnitudes, layers::Adapter& adapter);
/// The same of any values, for a plan: of all weights of `set` that have magnitudes.
void plan_scales(kernels::Exec& exec, comm::Communicator& tensor,
                 const parameters::ParameterSet& set, const layers::AdapterRanks& ranks,
                 layers::Adapter& adapter);

}  // namespace megalith::low_rank
