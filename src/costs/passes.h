// SPDX-License-Identifier: Apache-2.0
// What one micro-batch takes on one rank of each part of a model: a layer, the embedding, the head.
// The operations follow from the description of the layer (spec/layer_spec.h) and the settings; the
// products are those that a traced step runs (passes_test.cpp holds their number of operations
// equal to the trace's). Times are forward, backward, and what recomputation runs again before
// backward; transfers between tensor ranks apart, those alone that no product hides.
#pragma once

#include "costs/device_time.h"
#include "costs/wire_time.h"
#include "engine/settings.h"

namespace megalith::costs {

/// Seconds.
struct PassTime {
  double compute = 0;
  double wire = 0;  // exposed
  double total() const { return compute + wire; }
  PassTime& operator+=(const PassTime& other);
};

struct Passes {
  PassTime forward, backward, again;
  double weights = 0;      // elements on this rank
  double model_flops = 0;  // of one micro-batch, on all tensor ranks, forward and backward, nothing
                           // twice, all pairs of tokens (Korthikanti et al. 2022, equation 7)
  Passes& operator+=(const Passes& other);
};

class PartTimes {
 public:
  /// Of the settings' tensor ranks, micro-batch and types. `settings` may change afterwards.
  PartTimes(const engine::Settings& settings, const clusters::Cluster& cluster);

  /// `layer` of the model that `settings` describes; `mode` of it.
  Passes layer(const engine::Settings& settings, int64_t layer, layers::Recompute mode) const;
  Passes embedding(const engine::Settings& settings) const;
  Passes head(const engine::Settings& settings) const;

 private:
  class Builder;
  DeviceTime device_;
};

/// Streaming attention's pairs of a query and a key that exist in a sequence.
double pairs_of(const layers::AttentionSpec& attention, double queries, double keys);

/// Of products that are not in 8 bits.
clusters::ProductType product_type(const engine::Settings& settings);

}  // namespace megalith::costs
