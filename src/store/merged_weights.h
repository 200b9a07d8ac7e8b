// SPDX-License-Identifier: Apache-2.0
// A model whose weights have an adapter's part in them: w + b a for each product that it adds to,
// with magnitudes its rows times m / || w + b a ||, computed in double precision and rounded to
// f32; or the rows or columns of w times a learned vector, and with rows the bias too. Then rounded
// to the type in which the tensor is stored. Tensors in blocks become f32, for the sums are no
// blocks.
#pragma once

#include <filesystem>

#include "store/model_source.h"

namespace megalith::store {

/// `folder` is PEFT's (adapter_source.h, which says what it throws).
ModelSource with_adapter_merged(ModelSource base, const std::filesystem::path& folder);

}  // namespace megalith::store
