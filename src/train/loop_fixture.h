// SPDX-License-Identifier: Apache-2.0
// Small whole runs of one rank, for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "base/file.h"
#include "checkpoint/manifest.h"
#include "comm/backends.h"
#include "data/indexed.h"
#include "data/test_corpus.h"
#include "engine/from_recipe.h"
#include "train/finished.h"
#include "train/loop.h"
#include "train/run_inputs.h"

namespace megalith::train {

namespace fs = std::filesystem;

/// The lines of a run, without what a clock says.
inline std::vector<nlohmann::json> lines_of(const fs::path& metrics) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(metrics);
  for (std::string line; std::getline(file, line);) {
    lines.push_back(nlohmann::json::parse(line));
    for (const char* key : {"step_seconds", "tokens_per_second", "mfu", "memory_bytes"})
      lines.back().erase(key);
  }
  return lines;
}

class LoopTest : public ::testing::Test {
 protected:
  LoopTest() {
    data::write_corpus(folder_ / "corpus", {data::counting(1, 90), data::counting(1, 70)});
    recipe_.run.out = out().string();
    recipe_.run.threads = 1;
    recipe_.model.layers = 1;
    recipe_.model.hidden = 16;
    recipe_.model.heads = 2;
    recipe_.model.context = 8;
    recipe_.model.vocab = 100;
    recipe_.data.train = {{(folder_ / "corpus").string(), {}}};
    recipe_.train.steps = 4;
    recipe_.train.global_batch = 2;
    recipe_.optimizer.schedule = config::Schedule::constant;
    recipe_.checkpoint.every = 1;
    recipe_.checkpoint.keep = 4;
    config::resolve(recipe_);
  }

  fs::path out() const { return folder_ / "run"; }
  fs::path checkpoints() const { return out() / "checkpoints"; }
  RunResult run(const Hooks& hooks = {}) {
    const StopRequest stop;
    const engine::Settings settings = engine::settings_of(recipe_, 0);
    const auto source = training_source(recipe_, settings, nullptr);
    const auto validation = validation_source(recipe_, settings, nullptr);
    return run_training({.recipe = recipe_,
                         .settings = settings,
                         .tokenizer = nullptr,
                         .training = *source,
                         .validation = validation.get(),
                         .initial_weights = initial_weights_,
                         .of_first_weights = of_first_weights_,
                         .spans = spans_,
                         .facts = facts_,
                         .hooks = hooks,
                         .stop = &stop},
                        *world_, *device_);
  }
  std::optional<report::StepMetrics> finished() {
    const engine::Settings settings = engine::settings_of(recipe_, 0);
    return finished_before(*world_, recipe_, settings, *training_source(recipe_, settings, nullptr),
                           nullptr, "", {});
  }
  std::vector<std::string> saved() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(checkpoints()))
      names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }
  /// Makes step `step` not finite, and does `then` when it is done. The weights are as they were
  /// by then: nothing but a judgement keeps the step from being saved.
  static Hooks not_finite_at(int64_t step, std::function<void(int64_t)> then) {
    const auto weight = [](engine::Engine& engine) -> float& {
      return *reinterpret_cast<float*>(
          engine.parameters().find("final_norm.weight")->master().data());
    };
    auto was = std::make_shared<float>();
    Hooks hooks;
    hooks.before_step = [=](engine::Engine& engine, int64_t at) {
      if (at != step) return;
      *was = weight(engine);
      weight(engine) = std::numeric_limits<float>::quiet_NaN();
    };
    hooks.after_step = [=](engine::Engine& engine, int64_t at, double) {
      if (at == step) weight(engine) = *was;
      then(at);
    };
    return hooks;
  }
  void rewrite_as_newer(const std::string& step) const {
    rewrite(step,
            [](nlohmann::json& json) { json["format_version"] = checkpoint::kFormatVersion + 1; });
  }
  void rewrite(const std::string& step, const std::function<void(nlohmann::json&)>& change) const {
    const fs::path manifest = checkpoints() / step / checkpoint::kManifestName;
    auto json = nlohmann::json::parse(read_file(manifest));
    change(json);
    const std::string text = json.dump();
    put(manifest, text);
    put(checkpoints() / step / checkpoint::kCommitName,
        sha256(std::as_bytes(std::span(text))) + "\n");
  }
  static void put(const fs::path& path, const std::string& text) {
    fs::remove(path);
    data::write_text(path, text);
  }

  const data::TemporaryFolder folder_;
  config::Recipe recipe_;
  RunFacts facts_;
  std::function<void(engine::Engine&)> initial_weights_;
  OfFirstWeights of_first_weights_;
  JudgedSpans spans_;  // `scores` alone: what each validation is said to give
  std::unique_ptr<device::Device> device_ = device::make_cpu_device(1);
  std::unique_ptr<comm::Communicator> world_ = comm::make_self_communicator(*device_);
};

}  // namespace megalith::train
