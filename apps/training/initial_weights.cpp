// SPDX-License-Identifier: Apache-2.0
#include "apps/training/initial_weights.h"

#include <algorithm>
#include <filesystem>

#include "checkpoint/step_folders.h"
#include "families/model_spec_json.h"

namespace megalith::apps {
namespace {

/// Whether `path` is the run's folder or lies in it.
bool is_inside(const std::filesystem::path& path, const std::filesystem::path& run) {
  std::error_code error;
  const auto inner = std::filesystem::weakly_canonical(path, error);
  const auto outer = std::filesystem::weakly_canonical(run, error);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

}  // namespace

void check_restart(const config::Recipe& recipe, std::string_view key, const std::string& model,
                   const std::string& path) {
  if (model.empty() || !is_inside(model, recipe.run.out)) return;
  throw UserError("{}: --restart moves {} {} away, which is in run.out", path, key, model);
}

std::optional<store::ModelSource> initial_weights(comm::Communicator& world,
                                                  const config::Recipe& recipe,
                                                  const engine::Settings& settings) {
  if (recipe.train.init.empty()) return std::nullopt;
  const auto steps = [&] {
    return checkpoint::step_folders(std::filesystem::path(recipe.run.out) / "checkpoints");
  };
  const bool begins = world.rank() == 0 && steps().empty();
  if (world.exchange(begins ? "begins" : "", "a run begins")[0].empty()) return std::nullopt;
  const std::string where = fmt::format("recipe: train.init {}", recipe.train.init);
  const int shards = settings.split.tensor_shards;
  auto source = store::ModelSource::open(recipe.train.init, shards, [&] { world.heartbeat(); });
  models::require_same_weights(settings.model, source.spec(), where);
  if (source.spec().padded_vocab(source.tensor_shards()) != settings.model.padded_vocab(shards)) {
    throw UserError("{}: its vocabulary is padded for parallel.tensor_shards {}; set that", where,
                    source.tensor_shards());
  }
  comm::require_same(world, "the model of train.init", source.weights().fingerprint());
  return source;
}

void begin_with(const store::ModelSource& source, train::RunInputs& inputs) {
  inputs.initial_weights = [&](engine::Engine& engine) {
    source.fill(engine.parameters(), engine.device(), [&] { engine.mesh().world().heartbeat(); });
  };
  inputs.facts.init = {{"path", inputs.recipe.train.init},
                       {"fingerprint", source.weights().fingerprint()}};
}

}  // namespace megalith::apps
