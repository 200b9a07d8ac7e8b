// SPDX-License-Identifier: Apache-2.0
#include "preferences/reference.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_fault.h"
#include "base/log.h"
#include "engine/validation.h"
#include "kernels/cross_entropy/preference_loss.h"

namespace megalith::tune {
namespace {

constexpr int kReferenceVersion = 1;
/// Of each number some twenty characters: pairs by the hundred million.
constexpr int64_t kMostReferenceBytes = int64_t{1} << 33;

std::string digest_of(std::string_view text) { return sha256(std::as_bytes(std::span(text))); }

/// What a recipe says of how they are computed, in words.
std::string arithmetic_of(const config::Recipe& recipe) {
  config::Recipe kept;
  kept.precision = recipe.precision;
  kept.numerics = recipe.numerics;
  kept.parallel.tensor_shards = recipe.parallel.tensor_shards;
  kept.tune.quantize = recipe.tune.quantize;
  if (recipe.tune.has_virtual_tokens()) {
    kept.run.seed = recipe.run.seed;
    kept.tune.method = recipe.tune.method;
    kept.tune.virtual_tokens = recipe.tune.virtual_tokens;
    kept.tune.prompt_init = recipe.tune.prompt_init;
    kept.tune.prompt_text = recipe.tune.prompt_text;
    kept.tune.encoder = recipe.tune.encoder;
    kept.tune.encoder_hidden = recipe.tune.encoder_hidden;
    kept.tune.encoder_layers = recipe.tune.encoder_layers;
  }
  return config::to_yaml(kept);
}

using Values = std::vector<std::vector<float>>;  // of each source

std::string digest_of(const Values& values) {
  Sha256 sha;
  for (const std::vector<float>& each : values)
    sha.update(each.data(), each.size() * sizeof(float));
  return sha.finish();
}

/// Nothing when the text is none that was written here.
std::optional<Values> values_in(const std::string& text, const std::string& key) {
  if (json_fault(text)) return std::nullopt;
  const auto json = nlohmann::json::parse(text);
  const auto is = [&](const char* name, const nlohmann::json& value) {
    const auto found = json.find(name);
    return found != json.end() && *found == value;
  };
  if (!json.is_object() || !is("version", kReferenceVersion) || !is("key", key) ||
      !json.contains("values") || !json["values"].is_array())
    return std::nullopt;
  Values values;
  for (const auto& list : json["values"]) {
    if (!list.is_array()) return std::nullopt;
    std::vector<float>& each = values.emplace_back();
    for (const auto& value : list) {
      if (!value.is_number()) return std::nullopt;
      each.push_back(value.get<float>());
    }
  }
  if (!is("sha256", digest_of(values))) return std::nullopt;
  return values;
}

}  // namespace

std::optional<std::vector<float>> answer_log_probabilities(engine::Engine& engine,
                                                           const PreferenceSource& source,
                                                           FunctionRef<bool()> stop) {
  using kernels::PreferenceValue;
  const int64_t samples = source.samples_per_epoch();
  std::vector<double> told;  // of this rank's answers, in the order of samples
  const auto pass = [&](const data::HostBatch& batch) {
    const std::vector<double> values = engine.loss_values(batch);
    if (values.empty()) return;  // not the last stage
    const int64_t units = engine.losses().units(batch);
    for (int64_t pair = 0; pair < batch.num_compared(); ++pair)
      for (const auto which :
           {PreferenceValue::chosen_log_probability, PreferenceValue::rejected_log_probability})
        told.push_back(values[static_cast<size_t>(static_cast<int64_t>(which) * units + pair)]);
  };
  if (!engine::pass_over(engine, source, samples, stop, pass)) return std::nullopt;
  const std::vector<double> all = engine::of_all_ranks(engine.mesh(), told, "reference");
  std::vector<float> values(static_cast<size_t>(2 * source.num_pairs()));
  MEGA_CHECK_EQ(all.size(), values.size());
  size_t at = 0;
  for (int64_t n = 0; n < samples; ++n)
    for (const int64_t pair : source.pairs_of(n))
      for (const int64_t answer : {2 * pair, 2 * pair + 1})
        values[static_cast<size_t>(answer)] = static_cast<float>(all[at++]);
  return values;
}

Reference::Reference(const config::Recipe& recipe, const std::string& weights,
                     const PreferenceSource& training, const PreferenceSource* validation,
                     std::filesystem::path file)
    : sources_{&training}, file_(std::move(file)) {
  if (validation != nullptr) sources_.push_back(validation);
  std::string all = weights + "\n" + arithmetic_of(recipe);
  for (const PreferenceSource* source : sources_) all += source->fingerprint({}) + "\n";
  key_ = digest_of(all);
}

std::string Reference::kept_text() const {
  if (!std::filesystem::exists(file_)) return "";
  std::string text = read_file(file_, kMostReferenceBytes);
  if (values_in(text, key_)) return text;
  log::warning("{} is damaged, or of other weights or examples; it is made again", file_.string());
  return "";
}

bool Reference::take(const std::string& text) const {
  auto values = values_in(text, key_);
  if (!values || values->size() != sources_.size()) return false;
  for (size_t i = 0; i < sources_.size(); ++i)
    if (std::ssize((*values)[i]) != 2 * sources_[i]->num_pairs()) return false;
  for (size_t i = 0; i < sources_.size(); ++i)
    sources_[i]->reference().set(std::move((*values)[i]));
  return true;
}

bool Reference::take_kept(comm::ControlMessages& world) const {
  const std::string text = world.rank() == 0 ? kept_text() : "";
  return take(world.exchange(text, "a kept reference")[0]);
}

bool Reference::make(engine::Engine& engine, FunctionRef<bool()> stop) const {
  const double begin = monotonic_seconds();
  Values values;
  int64_t pairs = 0;
  for (const PreferenceSource* source : sources_) {
    auto some = answer_log_probabilities(engine, *source, stop);
    if (!some) return false;
    const auto bad = std::ranges::find_if(*some, [](float value) { return !std::isfinite(value); });
    if (bad != some->end()) {
      throw UserError(
          "the weights that tuning begins with give an answer of pair {} a log-probability that is "
          "{}; compute in another precision, or leave the pair out",
          (bad - some->begin()) / 2, *bad);
    }
    values.push_back(std::move(*some));
    pairs += source->num_pairs();
  }
  if (engine.mesh().world().rank() == 0) {
    const nlohmann::json json = {{"version", kReferenceVersion},
                                 {"key", key_},
                                 {"sha256", digest_of(values)},
                                 {"values", values}};
    write_file_durable(file_, json.dump() + "\n");
    log::info("the reference: log-probabilities of the answers of {} pairs, in {:.1f} seconds; {}",
              pairs, monotonic_seconds() - begin, file_.string());
  }
  for (size_t i = 0; i < sources_.size(); ++i) sources_[i]->reference().set(std::move(values[i]));
  return true;
}

}  // namespace megalith::tune
