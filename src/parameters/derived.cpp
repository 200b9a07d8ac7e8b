// SPDX-License-Identifier: Apache-2.0
// Parameters of a set that follow from others of it.
#include <algorithm>
#include <utility>

#include "parameters/parameter_set.h"

namespace megalith::parameters {

void ParameterSet::add_derived(size_t first, std::shared_ptr<const Derivation> derivation) {
  MEGA_CHECK(first + 1 < parameters_.size() && parameters_.back().declaration().is_derived,
             "nothing of a set of {} parameters follows from those from {} on", parameters_.size(),
             first);
  derived_.push_back({&parameters_.back(), first, parameters_.size() - 1, std::move(derivation)});
}

void ParameterSet::derive(kernels::Exec& exec) {
  for (DerivedParameter& derived : derived_) {
    uint64_t versions = 0;
    for (size_t i = derived.first; i < derived.last; ++i) versions += parameters_[i].version();
    if (derived.made_of == versions) continue;
    derived.derivation->forward(exec);
    derived.value->mark_changed();
    derived.made_of = versions;
  }
}

void ParameterSet::backward_derived(kernels::Exec& exec) {
  for (const DerivedParameter& derived : derived_) derived.derivation->backward(exec);
}

size_t ParameterSet::complete_last() const {
  const size_t shared = shared_.empty() ? 0 : shared_.back().parameters.end;
  return derived_.empty() ? shared : std::max(shared, derived_.back().last + 1);
}

}  // namespace megalith::parameters
