// SPDX-License-Identifier: Apache-2.0
// The machine as kernels see it, with what was measured on it: which products `fast` numerics gives
// to the library. Measured once per machine and kept in the user's cache folder.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "device/target.h"
#include "kernels/exec.h"
#include "tensor/dtype.h"
#include "train/product_choices.h"

namespace megalith::apps {

/// The target of `threads` threads of this machine for `numerics`. `fast` takes the measured rates:
/// from $XDG_CACHE_HOME/megalith (~/.cache/megalith) or, once, from the machine (a second); what
/// was chosen is logged. `exact` does not depend on them. A run that goes on takes what it
/// `recorded`, as far as this machine's library has it; what it has not, and whatever else makes
/// the bits another machine's, is said in one line.
device::Target cpu_target(int threads, kernels::Numerics numerics,
                          const std::optional<train::ProductChoices>& recorded = std::nullopt);

/// How many times faster `fast` multiplies matrices of `dtype` here than `exact`: for advice.
double fast_gain(int threads, DType dtype);

/// {"cpu", "isa", "threads", "memory_bytes", "host"}
nlohmann::ordered_json machine_json(const device::Target& target);

}  // namespace megalith::apps
