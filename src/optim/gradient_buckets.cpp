// SPDX-License-Identifier: Apache-2.0
#include "optim/gradient_buckets.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/elementwise/pointwise.h"
#include "parameters/ownership.h"

namespace megalith::optim {
namespace {

/// One is computed with while the other travels.
constexpr size_t kMostWithScratch = 2;

}  // namespace

GradientBuckets::GradientBuckets(kernels::Exec& exec, comm::Communicator& data,
                                 parameters::ParameterSet& set, std::span<const Addition> last)
    : exec_(exec), data_(data), set_(set), last_(last), complete_from_(set.all().size()) {
  cut();
}

void GradientBuckets::cut() {
  const parameters::Storage& storage = set_.storage();
  if (to_owners()) {
    for (const auto& group : parameters::ownership_groups(set_.all(), storage.bucket_elements)) {
      waiting_.push_back({set_.gradient_begin(group.begin), set_.gradient_begin(group.end), group});
    }
    return;
  }
  for (int64_t end = set_.gradient_begin(set_.all().size()); end > 0;
       end -= storage.bucket_elements) {
    waiting_.push_back({std::max<int64_t>(0, end - storage.bucket_elements), end, {}});
  }
  std::ranges::reverse(waiting_);
}

void GradientBuckets::complete(const parameters::ParameterRun& parameters) {
  if (parameters.begin == parameters.end) return;
  MEGA_CHECK(parameters.end == complete_from_ && parameters.begin < parameters.end,
             "backward of parameters {} to {} ended before that of {}", parameters.begin,
             parameters.end, complete_from_);
  complete_from_ = parameters.begin;
  advance();
  const device::NameScope scope(exec_.device, "gradients");
  while (!waiting_.empty() && waiting_.back().begin >= set_.gradient_begin(complete_from_)) {
    start(waiting_.back());
    waiting_.pop_back();
  }
}

void GradientBuckets::start(const Bucket& bucket) {
  const auto part = [&](int level) {
    return set_.flat_gradient_sums(level).rows(bucket.begin, bucket.end - bucket.begin);
  };
  for (const auto& [into, from] : last_) kernels::add(exec_, part(into), part(from), part(into));
  if (data_.size() == 1) return;
  if (first_halves_.size() + to_owners_.size() == kMostWithScratch) settle_oldest();
  if (to_owners()) {
    to_owners_.push_back(start_to_owners(exec_, data_, set_, bucket.parameters));
  } else {
    first_halves_.push_back(parallel::start_tree_all_reduce(exec_, data_, part(0), "gradients"));
  }
}

/// Backends that move data only while they are called are called after every block.
void GradientBuckets::advance() const {
  for (const auto& pending : first_halves_) parallel::advance(data_, pending);
  for (const auto& pending : second_halves_) parallel::advance(data_, pending);
  for (const auto& pending : to_owners_) {
    for (const comm::Ticket& ticket : pending.tickets) data_.advance(ticket);
  }
}

void GradientBuckets::settle_oldest() {
  if (to_owners()) {
    optim::finish(exec_, data_, set_, std::move(to_owners_.front()));
    to_owners_.pop_front();
    return;
  }
  parallel::start_second_half(exec_, data_, first_halves_.front());
  second_halves_.push_back(std::move(first_halves_.front()));
  first_halves_.pop_front();
}

void GradientBuckets::finish() {
  MEGA_CHECK(complete_from_ == 0 && waiting_.empty(), "backward of {} parameters has not ended",
             complete_from_);
  const device::NameScope scope(exec_.device, "gradients");
  while (!first_halves_.empty() || !to_owners_.empty()) settle_oldest();
  while (!second_halves_.empty()) {
    parallel::finish(exec_, data_, std::move(second_halves_.front()));
    second_halves_.pop_front();
  }
  set_.select_level(0);
}

}  // namespace megalith::optim
