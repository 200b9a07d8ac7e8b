// SPDX-License-Identifier: Apache-2.0
// megalith bench layouts: a recipe under its layout beside the same recipe on one rank (or beside
// whatever else is asked for), a step of each in turn, so that both see the same machine. Ranks are
// threads; both sides have the same cores. The figure that counts is the share of the ideal: what
// the schedule of the pipeline and uneven stages leave of the machine is planned, not blamed.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "account/layout_plan.h"
#include "account/plan.h"
#include "account/traced_step.h"
#include "apps/bench/figures.h"
#include "comm/backends.h"
#include "device/recorder.h"
#include "engine/from_recipe.h"
#include "trials/made_up_batches.h"

namespace megalith::apps {
namespace {

/// What is compared.
struct Side {
  engine::Settings settings;
  device::Target target;  // of each of its ranks
  double ideal = 1;       // share of the machine that its stages can use at best
  int ranks() const { return settings.layout.num_ranks(); }
};

config::Recipe beside(const RecipeOptions& options, const std::vector<std::string>& texts) {
  std::vector<settings::Override> more;
  for (const char* one : {"tensor=1", "pipeline=1", "data=1", "chunks=1", "zero=0",
                          "sequence=false", "schedule=1f1b"})
    more.push_back({fmt::format("parallel.{}", one), "--beside"});
  for (const std::string& text : texts) more.push_back({text, "--beside"});
  return options.load(more);
}

Side side_of(const config::Recipe& recipe, int threads) {
  Side side;
  side.settings = engine::settings_of(recipe, vocab_of(recipe));
  const int ranks = side.ranks();
  if (threads % ranks != 0) {
    throw UserError("--threads {}: {} ranks cannot have equal parts of them; give a multiple of {}",
                    threads, ranks, ranks);
  }
  side.target = device::cpu_target(threads / ranks);
  side.target.ranks_here = 2 * ranks;  // the other side's too
  if (side.settings.layout.pipeline > 1) {
    const auto timeline = account::plan_layout(side.settings, side.target, {}).timeline;
    side.ideal = std::accumulate(timeline.busy.begin(), timeline.busy.end(), 0.0) /
                 (static_cast<double>(timeline.busy.size()) * timeline.end);
  }
  return side;
}

/// One rank of a side.
struct Player {
  Player(const Side& side, comm::Communicator& its_world)
      : world(its_world),
        device(device::make_device(side.target)),
        mesh(world, side.settings.layout),
        engine(side.settings, *device, mesh),
        batches(trials::made_up_batches(side.settings)),
        weight(static_cast<double>(side.settings.batch.full * side.settings.sequence_length())) {
    engine.initialise();
  }
  void play(bool passes_alone) {
    ++step;
    if (passes_alone) {
      engine.replay(step, batches, weight, [](std::string_view, ConstView) {});
    } else {
      engine.step(step, 1e-4, batches, weight);
    }
  }
  /// Seconds of one more step, and those of them spent in waiting for other ranks' messages.
  std::array<double, 2> play_and_watch(bool passes_alone) {
    device::Recorder recorder;
    device->set_recorder(&recorder);
    world.set_device(device.get());
    const double begin = monotonic_seconds();
    play(passes_alone);
    const double seconds = monotonic_seconds() - begin;
    world.set_device(nullptr);
    device->set_recorder(nullptr);
    double waiting = 0;
    for (const device::Record& record : recorder.records())
      waiting += record.name.starts_with("wait_") ? record.seconds : 0;
    return {seconds, waiting};
  }
  comm::Communicator& world;
  std::unique_ptr<device::Device> device;
  parallel::Mesh mesh;
  engine::Engine engine;
  std::vector<data::HostBatch> batches;
  double weight;
  int64_t step = 0;
};

struct Figures {
  // For others, over the time of not waiting: means of the first side's ranks, step by step.
  std::vector<double> waiting;
  std::array<std::vector<double>, 2> seconds;     // per step, by side
  std::array<int64_t, 2> activation_bytes{0, 0};  // of rank 0
};

/// Each sample is a step of the one and a step of the other; all ranks start each together.
Figures play_in_turn(const std::array<Side, 2>& sides, int samples, bool passes_alone) {
  Figures figures;
  const int ranks = std::max(sides[0].ranks(), sides[1].ranks());
  comm::run_ranks(ranks, [&](comm::Communicator& world) {
    std::array<std::unique_ptr<comm::Communicator>, 2> worlds;
    std::array<std::unique_ptr<Player>, 2> players;
    for (size_t i = 0; i < 2; ++i) {
      std::vector<comm::Membership> members;
      for (int r = 0; r < ranks; ++r) members.push_back({r < sides[i].ranks() ? 0 : 1, r});
      worlds[i] = world.split(members, "side");
      if (world.rank() < sides[i].ranks()) {
        players[i] = std::make_unique<Player>(sides[i], *worlds[i]);
        players[i]->play(passes_alone);
      }
    }
    for (int sample = 0; sample < samples; ++sample) {
      double waiting = 0;
      world.barrier("watch");
      if (players[0] != nullptr) {
        const auto [seconds, waited] = players[0]->play_and_watch(passes_alone);
        waiting = 100 * waited / (seconds - waited) / sides[0].ranks();
      }
      const auto all = world.exchange_values(std::span<const double>(&waiting, 1), "waiting");
      if (world.rank() == 0)
        figures.waiting.push_back(std::accumulate(all.begin(), all.end(), 0.0));
    }
    for (int sample = 0; sample < samples; ++sample) {
      for (size_t i = 0; i < 2; ++i) {
        world.barrier("begin");
        const double begin = monotonic_seconds();
        if (players[i] != nullptr) players[i]->play(passes_alone);
        world.barrier("end");
        if (world.rank() == 0) figures.seconds[i].push_back(monotonic_seconds() - begin);
      }
    }
    if (world.rank() != 0) return;
    for (size_t i = 0; i < 2; ++i) {
      figures.activation_bytes[i] =
          account::memory_of(*players[i]->device).of(device::MemoryClass::activations);
    }
  });
  return figures;
}

}  // namespace

int bench_layouts(const RecipeOptions& recipe_options, const LayoutsComparison& comparison,
                  const BenchOptions& o, bool json) {
  const config::Recipe recipe = recipe_options.load();
  const int threads = o.threads > 0 ? o.threads : threads_of(recipe);
  const std::array<Side, 2> sides{side_of(recipe, threads),
                                  side_of(beside(recipe_options, comparison.beside), threads)};
  const auto tokens = [](const Side& s) {
    return static_cast<double>(s.settings.batch.full * s.settings.sequence_length());
  };
  if (tokens(sides[0]) != tokens(sides[1])) {
    throw UserError(
        "bench layouts: {} tokens per step against {}; the batch and the context must "
        "be those of both",
        tokens(sides[0]), tokens(sides[1]));
  }
  const Figures figures = play_in_turn(sides, o.samples, comparison.passes);
  std::array<std::vector<double>, 2> rates;
  std::vector<double> shares;
  for (size_t k = 0; k < figures.seconds[0].size(); ++k) {
    for (size_t i = 0; i < 2; ++i) rates[i].push_back(tokens(sides[i]) / figures.seconds[i][k]);
    shares.push_back(100 * (rates[0][k] / sides[0].ideal) / (rates[1][k] / sides[1].ideal));
  }
  report("layouts.tokens_per_second", rates[0], "tokens/s", true, threads, json);
  report("layouts.beside.tokens_per_second", rates[1], "tokens/s", true, threads, json);
  report("layouts.ideal", {100 * sides[0].ideal / sides[1].ideal}, "%", true, threads, json);
  report("layouts.share_of_ideal", shares, "%", true, threads, json);
  report("layouts.planned_idle", {100 * (1 / sides[0].ideal - 1)}, "%", false, threads, json);
  report("layouts.waiting", figures.waiting, "%", false, threads, json);
  constexpr double kMiB = 1 << 20;
  report("layouts.activations", {static_cast<double>(figures.activation_bytes[0]) / kMiB}, "MiB",
         false, threads, json);
  report("layouts.beside.activations", {static_cast<double>(figures.activation_bytes[1]) / kMiB},
         "MiB", false, threads, json);
  return 0;
}

}  // namespace megalith::apps
