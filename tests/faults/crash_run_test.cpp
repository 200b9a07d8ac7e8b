// SPDX-License-Identifier: Apache-2.0
// Power cuts of a whole run: the calls of a start that breaks off between two checkpoints, and of
// the next one, which goes on, are recorded; after every single one all disks that a cut could
// leave must hold a run that the newest checkpoint can be resumed from. Its own files go with it: a
// log that is shorter than the checkpoint says would be refused for good.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "checkpoint/manifest.h"
#include "checkpoint/step_folders.h"
#include "comm/backends.h"
#include "data/test_corpus.h"
#include "disk_model.h"
#include "report/metrics.h"
#include "save_fixture.h"

#include "engine/from_recipe.h"
#include "train/loop.h"
#include "train/position.h"
#include "train/run_inputs.h"
#include "train/run_log.h"

#include "file_faults.h"

namespace megalith::faults {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSteps = 4, kEvery = 2, kBreaksOffIn = 3;

config::Recipe recipe_of(const fs::path& corpus, const fs::path& out) {
  config::Recipe recipe;
  recipe.run.out = out.string();
  recipe.run.threads = 1;
  recipe.model.layers = 1;
  recipe.model.hidden = 8;
  recipe.model.heads = 1;
  recipe.model.context = 4;
  recipe.model.vocab = 64;
  recipe.data.train = {{corpus.string(), {}}};
  recipe.train.steps = kSteps;
  recipe.train.global_batch = 2;
  recipe.train.sample_every = 1;
  recipe.train.sample_prompts = {"a"};
  recipe.optimizer.schedule = config::Schedule::constant;
  recipe.checkpoint.every = kEvery;
  recipe.checkpoint.keep = 1;
  recipe.checkpoint.async = false;
  config::resolve(recipe);
  return recipe;
}

/// Breaks off in the middle of a step, as a crash does.
struct BreaksOff {};

void start(const config::Recipe& recipe, int64_t breaks_off_in) {
  const auto device = device::make_cpu_device(1);
  const auto world = comm::make_self_communicator(*device);
  train::Hooks hooks;
  hooks.before_step = [=](engine::Engine&, int64_t step) {
    if ((step - 1) % kEvery == 0 && step > 1) note(std::to_string(step - 1));  // it is saved
    if (step == breaks_off_in) throw BreaksOff();
  };
  hooks.samples = [](engine::Engine&, int64_t step) {
    return std::vector<report::TextSample>{{step, "a", "b"}};
  };
  const engine::Settings settings = engine::settings_of(recipe, 0);
  const auto source = train::training_source(recipe, settings, nullptr);
  train::run_training({.recipe = recipe,
                       .settings = settings,
                       .tokenizer = nullptr,
                       .training = *source,
                       .validation = nullptr,
                       .hooks = hooks},
                      *world, *device);
}

std::vector<Operation> record_run(const fs::path& corpus, const fs::path& disk) {
  const config::Recipe recipe = recipe_of(corpus, disk / "run");
  record(disk.string());
  EXPECT_THROW(start(recipe, kBreaksOffIn), BreaksOff);
  start(recipe, 0);
  note(std::to_string(kSteps));
  return stop();
}

/// The step that a start on this disk goes on from; nothing when it would begin anew.
std::optional<int64_t> resumed_step(const fs::path& run) {
  const auto newest = checkpoint::find_newest(run / "checkpoints", true);
  if (!newest) return std::nullopt;
  const train::Position position = train::position_from(newest->state());
  { const train::RunLog log(run, position.logs); }
  EXPECT_EQ(report::read_metrics(run / "metrics.jsonl").size(),
            static_cast<size_t>(newest->step()));
  return newest->step();
}

TEST(CrashRun, EveryPowerCutLeavesARunThatGoesOn) {
  const data::TemporaryFolder corpus;
  data::write_corpus(corpus / "corpus", {data::counting(1, 50)});
  const SaveFolder folder, disk;
  const std::vector<Operation> operations = record_run(corpus / "corpus", folder.path);
  DiskModel model;
  int64_t reported = 0;
  size_t prefixes = 0, disks = 0;
  for (const Operation& operation : operations) {
    if (operation.call == Call::note) {
      reported = std::stoll(operation.data);
      continue;
    }
    model.apply(operation);
    ++prefixes;
    model.for_each_crash([&](const DiskModel::Write& write) {
      if (testing::Test::HasFailure()) return;
      fs::remove_all(disk.path);
      write(disk.path);
      ++disks;
      std::optional<int64_t> step;
      ASSERT_NO_THROW(step = resumed_step(disk.path / "run")) << "after call " << prefixes;
      ASSERT_GE(step.value_or(0), reported) << "after call " << prefixes;
    });
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_EQ(reported, kSteps);
  std::printf("  %zu prefixes, %zu disks\n", prefixes, disks);
}

}  // namespace
}  // namespace megalith::faults
