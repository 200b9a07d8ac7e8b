// SPDX-License-Identifier: Apache-2.0
// Tests only: runs of models whose weights stay while something beside their products, or before
// texts, trains.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bottlenecks/trained_bottlenecks.h"
#include "comm/backends.h"
#include "inference/inference_engine.h"
#include "prompts/prompt_table.h"
#include "testing/toy_adapter.h"
#include "testing/toy_blocks.h"
#include "testing/toy_run.h"

namespace megalith::testing {

inline engine::Settings with_factors(engine::Settings settings, double dropout = 0) {
  settings.factors = low_rank::factors_of(toy_factors(settings.model, dropout), settings.masters);
  return settings;
}

/// The same with magnitudes of outputs.
inline engine::Settings with_magnitudes(engine::Settings settings) {
  auto products = std::make_shared<low_rank::FactoredProducts>(*toy_factors(settings.model));
  products->has_magnitudes = true;
  settings.factors = low_rank::factors_of(std::move(products), settings.masters);
  return settings;
}

/// Bottlenecks behind products that end an attention or an MLP.
inline engine::Settings with_bottlenecks(engine::Settings settings) {
  settings.factors = bottlenecks::bottlenecks_of(5, settings.masters);
  return settings;
}

/// So large that vectors move far from one in a few steps.
inline constexpr double kVectorRate = 0.1;
inline engine::Settings with_vectors(engine::Settings settings) {
  settings.factors = ia3::vectors_of(toy_vectors(settings.model), settings.masters);
  settings.schedule.peak = kVectorRate;
  return settings;
}

/// So large that the rows move far in a few steps.
inline constexpr double kPromptRate = 0.1;
inline engine::Settings with_prompt(engine::Settings settings) {
  settings.virtual_tokens = prompts::table_of(3, settings.masters);
  settings.schedule.peak = kPromptRate;
  return settings;
}

/// Rows move as far by less where an encoder makes them.
inline constexpr double kEncoderRate = 0.02;
inline engine::Settings with_encoder(engine::Settings settings, config::PromptEncoderKind kind) {
  settings.virtual_tokens = prompts::table_of(3, {kind, 10, 2}, settings.masters);
  settings.schedule.peak = kEncoderRate;
  return settings;
}

/// One rank.
struct OneRank {
  explicit OneRank(const engine::Settings& s)
      : settings(s),
        device(device::make_cpu_device(1)),
        world(comm::make_self_communicator(*device)),
        mesh(*world, settings.layout),
        engine(settings, *device, mesh) {
    engine.initialise();
    fill_blocks(engine.parameters(), *device);
  }
  /// The losses.
  std::vector<double> train(int steps, double rate) {
    std::vector<double> losses;
    for (int step = 1; step <= steps; ++step)
      losses.push_back(
          engine.step(step, rate, toy_micro_batches(settings, step, 0), toy_weight(settings, step))
              .loss);
    return losses;
  }
  std::map<std::string, std::vector<float>> weights() {
    std::map<std::string, std::vector<float>> all;
    for (const parameters::Parameter& parameter : engine.parameters().all()) {
      const auto* values = parameter.compute().view.as<float>();
      all[parameter.name()].assign(values, values + parameter.local_elements());
    }
    return all;
  }

  engine::Settings settings;
  std::unique_ptr<device::Device> device;
  std::unique_ptr<comm::Communicator> world;
  parallel::Mesh mesh;
  engine::Engine engine;
};

/// What `trained` has beside its products, or before texts, gives the bits that `adapter` of the
/// same values gives beside `plain`'s weights, and others than no adapter.
inline void expect_served_as_trained(OneRank& trained, OneRank& plain, layers::Adapter& adapter) {
  plain.engine.model().set_adapter(&adapter);
  inference::InferenceEngine served(plain.engine.model()), tuned(trained.engine.model());
  const std::vector<int32_t> ids = {1, 5, 2, 9, 3, 3, 8};
  EXPECT_EQ(served.score(ids), tuned.score(ids));
  plain.engine.model().set_adapter(nullptr);
  EXPECT_NE(served.score(ids), tuned.score(ids));
}

}  // namespace megalith::testing
