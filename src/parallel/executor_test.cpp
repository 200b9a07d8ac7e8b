// SPDX-License-Identifier: Apache-2.0
// A toy model of integer virtual stages, y = (k + 2) x + k, run by every schedule on thread ranks:
// outputs and gradients equal the closed form, buffers are asked for and given back once.
#include "parallel/executor.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "comm/backends.h"

namespace megalith::parallel {
namespace {

using Key = std::pair<int, int>;  // micro-batch, chunk

class ToyStage final : public StageWork {
 public:
  ToyStage(int stages, int stage, int chunks)
      : stages_(stages), stage_(stage), virtual_stages_(stages * chunks) {}

  void forward(int m, int c) override {
    const int k = virtual_stage(c);
    if (k == 0) inputs_[{m, c}] = 10 + m;
    if (stages_ == 1 && k > 0) inputs_[{m, c}] = outputs_[{m, c - 1}];
    const int64_t x = inputs_.at({m, c});
    if (k == virtual_stages_ - 1) {
      losses[m] = (k + 2) * x + k;
    } else {
      outputs_[{m, c}] = (k + 2) * x + k;
    }
  }
  void backward(int m, int c) override {
    const int k = virtual_stage(c);
    if (k == virtual_stages_ - 1) output_gradients_[{m, c}] = m + 1;
    if (stages_ == 1 && k < virtual_stages_ - 1)
      output_gradients_[{m, c}] = input_gradients_[{m, c + 1}];
    const int64_t dy = output_gradients_.at({m, c});
    // Weight gradients are in sample order: a digest that depends on it.
    weight_gradient[c] = weight_gradient[c] * 31 % 1'000'003 + dy * inputs_.at({m, c}) % 1'000'003;
    input_gradients_[{m, c}] = (k + 2) * dy;
    if (k == 0) first_gradients[m] = (k + 2) * dy;
  }

  ConstView output(int m, int c) override { return view(outputs_.at({m, c})); }
  View input(int m, int c) override { return view(inputs_[{m, c}]); }
  ConstView input_gradient(int m, int c) override { return view(input_gradients_.at({m, c})); }
  View output_gradient(int m, int c) override { return view(output_gradients_[{m, c}]); }
  void output_sent(int m, int c) override { EXPECT_EQ(outputs_.erase({m, c}), 1u); }
  void input_gradient_sent(int m, int c) override { EXPECT_EQ(input_gradients_.erase({m, c}), 1u); }

  bool all_sent() const {
    return stages_ == 1 || (outputs_.empty() && (stage_ == 0 || input_gradients_.empty()));
  }

  std::map<int, int64_t> losses, first_gradients, weight_gradient;

 private:
  int virtual_stage(int c) const { return c * stages_ + stage_; }
  static View view(int64_t& x) { return {reinterpret_cast<std::byte*>(&x), DType::i64, Shape{1}}; }
  int stages_, stage_, virtual_stages_;
  std::map<Key, int64_t> inputs_, outputs_, output_gradients_,
      input_gradients_;  // stable addresses
};

struct Result {
  std::map<int, int64_t> losses, first_gradients;
  std::map<int, int64_t> weight_gradients;  // by virtual stage
  friend bool operator==(const Result&, const Result&) = default;
};

Result run(ScheduleKind kind, int stages, int micro_batches, int chunks) {
  const auto schedule = make_schedule(kind, stages, micro_batches, chunks);
  Result result;
  std::mutex mutex;
  comm::run_ranks(stages,
                  [&](comm::Communicator& pipeline) {
                    ToyStage stage(stages, pipeline.rank(), chunks);
                    execute(schedule[static_cast<size_t>(pipeline.rank())], pipeline, stage);
                    EXPECT_TRUE(stage.all_sent());
                    const std::lock_guard lock(mutex);
                    result.losses.merge(stage.losses);
                    result.first_gradients.merge(stage.first_gradients);
                    for (const auto& [c, digest] : stage.weight_gradient) {
                      result.weight_gradients[c * stages + pipeline.rank()] = digest;
                    }
                  },
                  {30});
  return result;
}

TEST(Executor, EveryScheduleEqualsTheSerialRun) {
  for (const int virtual_stages : {1, 2, 4, 6, 12}) {
    for (const int m : {1, 2, 5, 8}) {
      const Result serial = run(ScheduleKind::interleaved, 1, m, virtual_stages);
      ASSERT_EQ(std::ssize(serial.losses), m);
      int64_t scale = 1;
      for (int k = 0; k < virtual_stages; ++k) scale *= k + 2;
      for (int i = 0; i < m; ++i) EXPECT_EQ(serial.first_gradients.at(i), scale * (i + 1));
      for (int stages = 1; stages <= 6; ++stages) {
        if (virtual_stages % stages != 0) continue;
        EXPECT_EQ(run(ScheduleKind::interleaved, stages, m, virtual_stages / stages), serial);
        if (stages != virtual_stages) continue;
        EXPECT_EQ(run(ScheduleKind::one_forward_one_backward, stages, m, 1), serial);
        EXPECT_EQ(run(ScheduleKind::gpipe, stages, m, 1), serial);
      }
    }
  }
}

class FailingStage final : public StageWork {
 public:
  void forward(int, int) override { throw UserError("token 99 is outside the vocabulary"); }
  void backward(int, int) override {}
  ConstView output(int, int) override { return view(); }
  View input(int, int) override { return view(); }
  ConstView input_gradient(int, int) override { return view(); }
  View output_gradient(int, int) override { return view(); }
  void output_sent(int, int) override {}
  void input_gradient_sent(int, int) override {}

 private:
  View view() { return {reinterpret_cast<std::byte*>(&value_), DType::i64, Shape{1}}; }
  int64_t value_ = 0;
};

TEST(Executor, AFailingStageEndsAll) {
  const auto schedule = make_schedule(ScheduleKind::one_forward_one_backward, 3, 4);
  EXPECT_THROW(
      comm::run_ranks(3,
                      [&](comm::Communicator& pipeline) {
                        ToyStage sound(3, pipeline.rank(), 1);
                        FailingStage failing;
                        StageWork& work =
                            pipeline.rank() == 1 ? static_cast<StageWork&>(failing) : sound;
                        execute(schedule[static_cast<size_t>(pipeline.rank())], pipeline, work);
                      }),
      UserError);
}

}  // namespace
}  // namespace megalith::parallel
