// SPDX-License-Identifier: Apache-2.0
// The program on a device that is not the host: training, generation and checkpoints have the bits
// of the cpu kind.
#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/step_folders.h"
#include "comm/backends.h"
#include "engine/state.h"
#include "inference/inference_model.h"
#include "math/random.h"
#include "testing/queued_device.h"
#include "testing/toy_run.h"

namespace megalith::testing {
namespace {

std::unique_ptr<device::Device> queued(const device::Target& target) {
  return make_queued_device(target);
}

void expect_the_bits_of_the_cpu(const engine::Settings& settings) {
  ToyRun cpu, other;
  run_toy(settings, 2, {}, cpu);
  run_toy(settings, 2, {.threads = 2, .make_device = queued}, other);
  EXPECT_EQ(difference(cpu, other), "");
}

TEST(QueuedTraining, OneRank) { expect_the_bits_of_the_cpu(toy_settings()); }

TEST(QueuedTraining, ALlama) { expect_the_bits_of_the_cpu(toy_llama_settings()); }

TEST(QueuedTraining, InF16) { expect_the_bits_of_the_cpu(in_f16(toy_settings())); }

TEST(QueuedTraining, HeadsOfSequences) {
  for (const auto kind :
       {layers::HeadKind::sequence_classification, layers::HeadKind::sequence_regression,
        layers::HeadKind::token_classification, layers::HeadKind::question_answering})
    expect_the_bits_of_the_cpu(toy_sequence_settings(kind));
}

TEST(QueuedTraining, DataRanksThatShareTheState) {
  engine::Settings settings = toy_settings();
  settings.layout.data = 2;
  settings.zero = 1;
  expect_the_bits_of_the_cpu(settings);
}

TEST(QueuedTraining, TensorRanksWithPartsOfTheSequence) {
  engine::Settings settings = toy_settings();
  settings.layout.tensor = 2;
  settings.layout.sequence = true;
  expect_the_bits_of_the_cpu(settings);
}

TEST(QueuedTraining, PipelineStages) {
  engine::Settings settings = toy_settings();
  settings.layout.pipeline = 3;
  expect_the_bits_of_the_cpu(settings);
}

/// One rank that trains.
struct Trainer {
  explicit Trainer(std::unique_ptr<device::Device> on)
      : device(std::move(on)),
        world(comm::make_self_communicator(*device)),
        mesh(*world, settings.layout),
        engine(settings, *device, mesh) {}
  engine::StepResult step(int64_t step) {
    return engine.step(step, 1e-2, toy_micro_batches(settings, step, 0),
                       toy_weight(settings, step));
  }
  /// A digest of parameters and moments.
  std::string state() {
    LogicalState state;
    state.add(engine);
    return state.digest();
  }
  void save(checkpoint::Saver& saver, int64_t step) {
    engine::ShardedOptimizerState spread(engine);
    saver.save(*device, step, engine::state_tensors(engine, spread), {{"step", step}}, {});
  }

  engine::Settings settings = toy_settings();
  std::unique_ptr<device::Device> device;
  std::unique_ptr<comm::Communicator> world;
  parallel::Mesh mesh;
  engine::Engine engine;
};

class QueuedCheckpoint : public ::testing::TestWithParam<bool> {
 protected:
  QueuedCheckpoint() { std::filesystem::remove_all(folder_); }
  ~QueuedCheckpoint() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_ = fmt::format("{}queued-{}", ::testing::TempDir(), GetParam());
};

TEST_P(QueuedCheckpoint, ResumesWithTheBitsOfTheCpu) {
  const device::Target target{.isa = device::detect_isa()};
  Trainer cpu(device::make_cpu_device(target));
  cpu.engine.initialise();
  for (int64_t step = 1; step <= 3; ++step) cpu.step(step);
  {
    Trainer before(queued(target));
    before.engine.initialise();
    checkpoint::Saver saver(folder_, {.asynchronous = GetParam()});
    before.step(1);
    before.step(2);
    before.save(saver, 2);
    before.step(3);  // while the snapshot is written
    ASSERT_NE(saver.wait(), nullptr);
  }
  const auto reader = checkpoint::find_newest(folder_, true);
  ASSERT_TRUE(reader.has_value());
  Trainer after(queued(target));
  engine::load_state(*reader, after.engine);
  after.step(3);
  EXPECT_EQ(cpu.state(), after.state());
}
INSTANTIATE_TEST_SUITE_P(SnapshotOrNot, QueuedCheckpoint, ::testing::Bool());

TEST(QueuedTraining, AStepThatIsNotFiniteChangesNothing) {
  Trainer toy(queued({.isa = device::detect_isa()}));
  toy.engine.initialise();
  ASSERT_TRUE(toy.step(1).applied);
  const std::string before = toy.state();
  auto batches = toy_micro_batches(toy.settings, 2, 0);
  batches[0].loss_weight_T[3] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(toy.engine.step(2, 1e-2, batches, toy_weight(toy.settings, 2)).applied);
  EXPECT_EQ(before, toy.state());
}

// The stream is slow to make what is sent, and to read what came.
TEST(QueuedRanks, ACollectiveBeginsWhenTheStreamHasComeToIt) {
  comm::run_ranks(3, [](comm::Communicator& world) {
    const auto device = make_queued_device({}, {.copy_delay = std::chrono::milliseconds(10),
                                                .work_delay = std::chrono::milliseconds(2)});
    world.set_device(device.get());
    const auto tensor = [&](int64_t n) {
      return device->arena(device::MemoryClass::workspace).tensor(DType::f64, Shape{n});
    };
    const std::vector<double> mine{1.0 + world.rank()};
    const device::Tensor own = tensor(1), all = tensor(3), largest = tensor(1);
    device->fill_zero(largest);
    device->copy_to_device(own, mine.data());
    device->copy(largest, own);
    comm::Ticket gather = world.start_all_gather(own, all, "all");
    comm::Ticket reduction = world.start_all_reduce_max(largest, "largest");
    world.wait(std::move(gather));
    world.wait(std::move(reduction));
    std::vector<double> back(4);
    device->copy_to_host(back.data(), all.view);
    device->wait(device->copy_to_host(back.data() + 3, largest.view));
    EXPECT_EQ(back, (std::vector<double>{1, 2, 3, 3}));
    EXPECT_EQ(world.sum(1, "host data"), 3);
    world.set_device(nullptr);
  });
}

/// Everything that a model says of a text, on one device.
struct Said {
  std::vector<double> score;
  std::vector<std::vector<float>> logits;
  friend bool operator==(const Said&, const Said&) = default;
};

Said said_on(device::Device& device, const models::ModelSpec& spec) {
  inference::InferenceModel model(spec, device,
                                  {.compute = DType::bf16,
                                   .numerics = kernels::Numerics::exact,
                                   .tensor_shards = 2,
                                   .layout = {}});
  for (parameters::Parameter& parameter : model.parameters().all()) {
    std::vector<bf16_t> values(static_cast<size_t>(parameter.local_elements()));
    const uint64_t key = random_key(1, parameter.name());
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = to_bf16(static_cast<float>(key % (1009 + i)) / 5000 - 0.1f);
    device.wait(device.copy_to_device(parameter.mutable_compute(), values.data()));
  }
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 12; ++i) ids.push_back(i * 5 % static_cast<int32_t>(spec.vocab));
  Said said;
  said.score = model.engine().score(ids);
  inference::KvCache cache = model.engine().make_cache(spec.context);
  for (const size_t at : {0u, 5u, 6u})
    said.logits.push_back(
        model.engine().extend(cache, std::span(ids).subspan(at, at == 0 ? 5 : 1)));
  return said;
}

TEST(QueuedGeneration, SaysWhatTheCpuSays) {
  for (const engine::Settings& settings : {toy_settings(), toy_llama_settings()}) {
    const auto cpu = device::make_cpu_device(1);
    const auto other = queued({.isa = device::detect_isa(), .num_threads = 2});
    EXPECT_EQ(said_on(*cpu, settings.model), said_on(*other, settings.model));
  }
}

}  // namespace
}  // namespace megalith::testing
