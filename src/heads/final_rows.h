// SPDX-License-Identifier: Apache-2.0
// What heads read: the final norm's output for all tokens of a batch, on every tensor rank.
#pragma once

#include <string_view>

#include "layers/norm.h"

namespace megalith::layers {

/// In the one of the two buffers that is there.
struct FinalRows {
  device::Tensor own;       // where a rank's own tokens are all
  device::Tensor gathered;  // with sequence parallelism
  ConstView h_TH() const { return gathered.view.absent() ? own.view : gathered.view; }
};

/// x_TH: the rank's own tokens. Fills `saved` unless null. Collective over the tensor ranks when
/// the own tokens are not all; `label` names the gather.
FinalRows final_rows(Context& context, const Batch& batch, const Norm& norm, ConstView x_TH,
                     NormSaved* saved, std::string_view label);

}  // namespace megalith::layers
