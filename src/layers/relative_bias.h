// SPDX-License-Identifier: Apache-2.0
// The table of biases by distance that all layers of a stack add to their scores (T5's relative
// positions, Raffel et al. 2020): whoever strings the layers together declares it, and gives each
// layer a parameter of its own of the same weights, into which that layer's gradients go.
#pragma once

#include <string>

#include "layers/linear.h"
#include "spec/layer_spec.h"

namespace megalith::layers {

/// Declares `name` [buckets, heads], cut by heads. `spec` has relative positions.
parameters::Parameter& declare_relative_bias(parameters::ParameterSet& set, const std::string& name,
                                             const AttentionSpec& spec, double init_std,
                                             const Partition& partition);

}  // namespace megalith::layers
