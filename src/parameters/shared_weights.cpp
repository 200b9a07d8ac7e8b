// SPDX-License-Identifier: Apache-2.0
// Weights that several layers of a set share.
#include <algorithm>

#include "parameters/parameter_set.h"

namespace megalith::parameters {

Parameter& ParameterSet::declare_again(Parameter& known, Declaration declaration) {
  MEGA_CHECK(open_use_ && open_use_->begin == parameters_.size() && known.num_gradients() == 1 &&
                 known.local_shape() == declaration.shard.local_shape(declaration.shape),
             "parameter {} declared twice", declaration.name);
  ++open_use_->num_again;
  Parameter& further = further_.emplace_back(std::move(declaration));
  further.owner_ = &known;
  return further;
}

void ParameterSet::begin_use(const Use& use) {
  MEGA_CHECK(!open_use_ && use.number >= 0 && use.number < use.count && use.count > 1,
             "use {} of {}", use.number, use.count);
  open_use_ = {use, parameters_.size(), 0};
}

void ParameterSet::end_use() {
  const auto [use, begin, num_again] = open_use_.value();
  open_use_.reset();
  const size_t end = parameters_.size();
  MEGA_CHECK((end == begin) != (num_again == 0), "a layer shares some of its weights alone");
  if (end > begin) return shared_.push_back({{begin, end}, {use.number}, use.count});
  const auto of = std::ranges::find_if(shared_, [&](const SharedWeights& shared) {
    return &parameters_[shared.parameters.begin] == further_[further_.size() - num_again].owner_;
  });
  MEGA_CHECK(of != shared_.end() && of->parameters.end - of->parameters.begin == num_again,
             "a layer shares weights of several others");
  MEGA_CHECK(of->uses.back() < use.number && of->count == use.count, "use {} of weights after {}",
             use.number, of->uses.back());
  of->uses.push_back(use.number);
}

int64_t ParameterSet::elements_of(const ParameterRun& run) const {
  return gradient_begins_[run.end] - gradient_begins_[run.begin];
}

View ParameterSet::use_sums(size_t index, size_t use) const {
  const ParameterRun& run = shared_.at(index).parameters;
  const int64_t elements = elements_of(run);
  MEGA_CHECK_LT(use, shared_[index].uses.size());
  if (use == 0) return flat_gradient_sums(level_).rows(gradient_begins_[run.begin], elements);
  int64_t begin = static_cast<int64_t>(use - 1) * elements;
  for (size_t i = 0; i < index; ++i)
    begin += (std::ssize(shared_[i].uses) - 1) * elements_of(shared_[i].parameters);
  return further_sums_.view.rows(begin, elements);
}

}  // namespace megalith::parameters
