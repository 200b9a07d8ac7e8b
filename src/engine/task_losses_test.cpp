// SPDX-License-Identifier: Apache-2.0
// The losses of tasks that a validation tells beside that of all: each is the mean over the task's
// own tokens, whatever stands beside it in a sample, with the same bits under every layout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "comm/backends.h"
#include "engine/validation.h"
#include "testing/toy_model.h"

namespace megalith::engine {
namespace {

constexpr int64_t kTasks = 4;  // of which one has no text
constexpr int32_t kWithout = 2;
constexpr int64_t kTaskSamples = 13;

/// Samples of the toy, whose documents are of the tasks in turn; `only`: nothing weighs that is not
/// of this task.
class TaskSource final : public data::BatchSource {
 public:
  explicit TaskSource(const Settings& settings, std::optional<int32_t> only = {})
      : settings_(settings), only_(only) {}
  int64_t sequence_length() const override { return settings_.loss_length(); }
  int64_t encoder_length() const override {
    return settings_.model.is_encoder_decoder() ? settings_.sequence_length() : 0;
  }
  int64_t samples_per_epoch() const override { return 1000; }
  int64_t num_tasks() const override { return only_ ? 0 : kTasks; }
  void fill(int64_t first, int64_t count, data::HostBatch& batch) const override {
    batch = megalith::testing::toy_batch(settings_, first, count);
    batch.total_weight = 0;
    for (size_t s = 0; s < batch.sequence_sample.size(); ++s) {
      const int32_t begin = batch.cu_seqlens[s], length = batch.cu_seqlens[s + 1] - begin;
      const std::span<float> weights =
          std::span(batch.loss_weight_T)
              .subspan(static_cast<size_t>(begin), static_cast<size_t>(length));
      const int32_t task = task_of(batch.sequence_sample[s], length);
      if (only_ && task != *only_) std::ranges::fill(weights, 0.0F);
      double weight = 0;
      for (const float w : weights) weight += static_cast<double>(w);
      batch.total_weight += weight;
      if (!only_) batch.sequence_task.push_back(weight > 0 ? task : -1);
    }
  }
  std::optional<double> sample_weight() const override { return std::nullopt; }
  std::string fingerprint(const data::AtWork&) const override { return "tasks"; }

 private:
  static int32_t task_of(int64_t sample, int32_t length) {
    const auto task = static_cast<int32_t>((sample / 2 + length) % (kTasks - 1));
    return task < kWithout ? task : task + 1;
  }
  Settings settings_;
  std::optional<int32_t> only_;
};

Settings settings_of_tasks(bool is_encoder_decoder) {
  Settings settings = is_encoder_decoder ? megalith::testing::toy_encoder_decoder_settings()
                                         : megalith::testing::toy_settings();
  settings.ragged = true;
  if (!is_encoder_decoder) settings.model.set_num_layers(4);
  return settings;
}

/// What every rank says, which is the same.
ValidationLoss validated(const Settings& settings, const data::BatchSource& source,
                         int64_t samples) {
  check(settings, "toy settings");
  std::vector<ValidationLoss> said(static_cast<size_t>(settings.layout.num_ranks()));
  comm::run_ranks(settings.layout.num_ranks(), [&](comm::Communicator& world) {
    const auto device = device::make_cpu_device(1);
    world.set_device(device.get());
    const parallel::Mesh mesh(world, settings.layout);
    Engine engine(settings, *device, mesh);
    engine.initialise();
    said[static_cast<size_t>(world.rank())] =
        *validation_loss(engine, source, samples, [] { return false; });
    world.set_device(nullptr);
  });
  for (const ValidationLoss& one : said) {
    EXPECT_EQ(one.loss, said[0].loss);
    EXPECT_EQ(one.tasks, said[0].tasks);
  }
  return said[0];
}

TEST(TaskLosses, AreMeansOverTheTasksOwnTokens) {
  for (const bool two_stacks : {false, true}) {
    const Settings settings = settings_of_tasks(two_stacks);
    const ValidationLoss all = validated(settings, TaskSource(settings), kTaskSamples);
    ASSERT_EQ(all.tasks.size(), static_cast<size_t>(kTasks));
    EXPECT_FALSE(all.tasks[kWithout]);
    double sum = 0, weight = 0;
    for (int32_t task = 0; task < kTasks; ++task) {
      if (task == kWithout) continue;
      const TaskSource alone(settings, task);
      const ValidationLoss own = validated(settings, alone, kTaskSamples);
      ASSERT_TRUE(all.tasks[static_cast<size_t>(task)]) << task;
      EXPECT_DOUBLE_EQ(*all.tasks[static_cast<size_t>(task)], own.loss) << task;
      EXPECT_TRUE(own.tasks.empty());
      data::HostBatch batch;
      alone.fill(0, kTaskSamples, batch);
      sum += batch.total_weight * own.loss;
      weight += batch.total_weight;
    }
    EXPECT_NEAR(sum / weight, all.loss, 1e-12);
    EXPECT_NE(*all.tasks[0], *all.tasks[1]);
  }
}

/// A task that the samples of a validation hold nothing of has no loss.
TEST(TaskLosses, AreOfTheSamplesThatAValidationTakes) {
  const Settings settings = settings_of_tasks(false);
  const ValidationLoss one = validated(settings, TaskSource(settings), 1);  // of one document
  EXPECT_EQ(std::ranges::count_if(one.tasks, [](const auto& loss) { return loss.has_value(); }), 1);
  for (const std::optional<double>& loss : one.tasks) EXPECT_EQ(loss.value_or(one.loss), one.loss);
}

TEST(TaskLosses, AreTheSameUnderEveryLayout) {
  using Change = void (*)(Settings&);
  const Change kLayouts[] = {
      [](Settings& s) { s.layout.tensor = 2; },
      [](Settings& s) { s.layout = {.tensor = 4, .sequence = true}; },
      [](Settings& s) { s.layout.pipeline = 3; },
      [](Settings& s) { s.layout = {.tensor = 2, .pipeline = 2, .data = 2, .sequence = true}; },
      [](Settings& s) {
        s.layout = {.pipeline = 2, .chunks = 2};
        s.pipeline_schedule = parallel::ScheduleKind::interleaved;
      },
      [](Settings& s) { s.layout.data = 2; },
      [](Settings& s) { s.micro_batch = 4; },
      [](Settings& s) { s.micro_batch = 1; },
  };
  for (const bool two_stacks : {false, true}) {
    const Settings serial = settings_of_tasks(two_stacks);
    for (const int64_t samples : {kTaskSamples, int64_t{1}}) {  // of one a data rank has none
      const ValidationLoss expected = validated(serial, TaskSource(serial), samples);
      for (size_t i = 0; i < std::size(kLayouts); ++i) {
        SCOPED_TRACE(fmt::format("{} stacks, layout {}", two_stacks ? 2 : 1, i));
        Settings other = serial;
        kLayouts[i](other);
        const ValidationLoss said = validated(other, TaskSource(other), samples);
        EXPECT_EQ(said.tasks, expected.tasks);
        EXPECT_EQ(said.loss, expected.loss);
      }
    }
  }
}

}  // namespace
}  // namespace megalith::engine
