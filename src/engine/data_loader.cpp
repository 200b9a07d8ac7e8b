// SPDX-License-Identifier: Apache-2.0
#include "engine/data_loader.h"

namespace megalith::engine {
namespace {

/// Where the next micro-batch of a data rank begins, step after step.
struct Cursor {
  optim::BatchRamp ramp;
  int64_t micro_batch;
  int64_t ranks, rank;
  int64_t step_begin;  // first sample of the step
  int64_t done = 0;    // samples of this rank's part already handed out

  int64_t take() {
    const int64_t part = optim::batch_size(ramp, step_begin) / ranks;
    const int64_t first = step_begin + rank * part + done;
    done += micro_batch;
    if (done == part) {
      step_begin += part * ranks;
      done = 0;
    }
    return first;
  }
};

/// Micro-batches read ahead: a step's worth would cost memory for nothing.
constexpr int kDepth = 4;

}  // namespace

DataLoader::DataLoader(const data::BatchSource& source, const Settings& settings,
                       comm::Communicator& data_ranks, int64_t first_sample)
    : source_(source),
      ramp_(settings.batch),
      micro_batch_(settings.micro_batch),
      data_ranks_(data_ranks),
      consumed_(first_sample) {
  Cursor cursor{settings.batch, settings.micro_batch, data_ranks.size(), data_ranks.rank(),
                first_sample};
  prefetcher_ = std::make_unique<data::Prefetcher>(
      [this, cursor](data::HostBatch& batch) mutable {
        source_.fill(cursor.take(), micro_batch_, batch);
        return true;
      },
      kDepth);
}

DataLoader::Step DataLoader::next() {
  Step step;
  step.first_sample = consumed_;
  step.samples = optim::batch_size(ramp_, consumed_);
  const int64_t count = step.samples / data_ranks_.size() / micro_batch_;
  double own = 0;
  for (int64_t m = 0; m < count; ++m) {
    std::optional<data::HostBatch> batch = prefetcher_->next();
    MEGA_CHECK(batch.has_value(), "the data loader has no end");
    own += batch->total_weight;
    step.micro_batches.push_back(std::move(*batch));
  }
  step.global_weight = weight_of_all(own, step.samples);
  consumed_ += step.samples;
  return step;
}

/// Numbers of tokens, so that any order of adding gives the same.
double DataLoader::weight_of_all(double own, int64_t samples) {
  if (const auto one = source_.sample_weight()) return static_cast<double>(samples) * *one;
  const auto sum = static_cast<int64_t>(own);
  MEGA_CHECK_EQ(static_cast<double>(sum), own);
  return static_cast<double>(data_ranks_.sum(sum, "step.weight"));
}

void DataLoader::recycle(Step&& step) {
  for (data::HostBatch& batch : step.micro_batches) prefetcher_->recycle(std::move(batch));
}

}  // namespace megalith::engine
