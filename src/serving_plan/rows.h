// SPDX-License-Identifier: Apache-2.0
// How a model lies on devices, and what a pass reads.
#pragma once

#include <cstdint>

#include "clusters/cluster.h"
#include "tensor/weight.h"

namespace megalith::serving_plan {

struct Deployment {
  int64_t tensor = 1, pipeline = 1;
  /// Of weights: f32, bf16 (16 bits of either kind), or blocks, which products widen to bf16.
  Format weights = Format::bf16;
  clusters::ProductType products = clusters::ProductType::bf16;
};

/// `count` tokens of a sequence of which `past` have been read; `times` sequences are alike.
struct Rows {
  double count = 0, past = 0, times = 1;
  bool chooses = true;  // logits of its last token are wanted
};

}  // namespace megalith::serving_plan
