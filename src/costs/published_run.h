// SPDX-License-Identifier: Apache-2.0
// A run that someone published, as settings.
#pragma once

#include <string>

#include "clusters/cluster.h"
#include "engine/settings.h"

namespace megalith::costs {

struct PublishedRun {
  std::string name;
  int64_t heads, hidden, layers;
  int tensor, pipeline, chunks;
  int64_t devices, global_batch, micro_batch;
  layers::Recompute recompute = layers::Recompute::none;
  bool sequence = false;
  bool zero = false;
  bool streaming = false;  // attention
  bool fp8 = false;
  int64_t length = 2048;  // of a sample
  int64_t vocab = 51200;
  int64_t kv_heads = 0;  // 0: heads
  int64_t ffn = 0;       // 0: 4 hidden
  bool gated = false;    // and, as in models of that kind, rotary positions and no biases
};

engine::Settings settings_of(const PublishedRun& run);

/// The run's TFLOP/s of one device as Narayanan et al. 2021 count (equation 3, with a full
/// recomputation), for a step of `seconds`.
double sc21_teraflops(const PublishedRun& run, double seconds);

}  // namespace megalith::costs
