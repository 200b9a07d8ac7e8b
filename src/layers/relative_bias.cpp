// SPDX-License-Identifier: Apache-2.0
#include "layers/relative_bias.h"

namespace megalith::layers {

parameters::Parameter& declare_relative_bias(parameters::ParameterSet& set, const std::string& name,
                                             const AttentionSpec& spec, double init_std,
                                             const Partition& partition) {
  using parameters::Init;
  const Shape shape{spec.relative.value().buckets, spec.heads};
  return set.declare({name, shape, partition.cut(shape, 1), Init{Init::Kind::normal, init_std},
                      partition.tensor_shards});
}

}  // namespace megalith::layers
