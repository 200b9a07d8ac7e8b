// SPDX-License-Identifier: Apache-2.0
#include "train/fp8_watch.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/log.h"

namespace megalith::train {

using precision::Guard;

namespace {

/// The layer of each product in 8 bits.
std::vector<int64_t> layers_of_products(const engine::Settings& settings) {
  std::vector<int64_t> layers;
  for (const std::string& name : settings.fp8_products()) {
    int64_t layer = 0;
    while (!name.starts_with(settings.model.layer_name(layer) + ".")) ++layer;
    layers.push_back(layer);
  }
  return layers;
}

}  // namespace

Fp8Watch::Fp8Watch(engine::Engine& engine, bool speaks) : engine_(engine), speaks_(speaks) {
  if (engine.fp8() == nullptr) return;
  options_ = engine.settings().fp8->guard;
  if (options_.every > 0) guard_.emplace(options_, layers_of_products(engine.settings()));
}

/// Products that the guard holds back, in the engine.
void Fp8Watch::apply() {
  for (size_t i = 0; i < engine_.fp8()->products().size(); ++i)
    engine_.fp8()->set_wide(i, guard_->is_wide(i));
}

void Fp8Watch::bring_back(int64_t step) {
  const std::vector<size_t> products = guard_->returning(step);
  if (products.empty()) return;
  apply();
  if (speaks_)
    log::info("step {}: {} products are in 8 bits again, {} in 16", step, products.size(),
              guard_->num_wide());
}

void Fp8Watch::before_step(int64_t step, std::span<const data::HostBatch> micro_batches) {
  last_.reset();
  if (!guard_) return;
  bring_back(step);
  if (!guard_->is_due(step)) return;
  last_ = engine_.check_fp8(step, micro_batches);
  const int64_t wide = guard_->num_wide();
  const Guard::Verdict verdict = guard_->judge(step, *last_);
  if (guard_->num_wide() != wide) {
    for (size_t i = 0; i < engine_.fp8()->products().size(); ++i) {
      if (guard_->is_wide(i)) engine_.fp8()->forget(engine_.model().exec(), i);
    }
    apply();
  }
  if (speaks_) say(step, verdict);
}

void Fp8Watch::say(int64_t step, Guard::Verdict verdict) const {
  if (verdict == Guard::Verdict::good) return;
  std::string what = fmt::format(
      "step {}: in 8 bits the loss of the checked samples is {:.6g}, in 16 {:.6g} ({:.3g} % "
      "apart), the cosine of the gradients {:.4f}",
      step, last_->loss, last_->wide_loss, 100 * last_->difference(), last_->cosine);
  const auto worst = std::ranges::max_element(
      last_->shares, {}, [&](const auto& share) { return guard_->part_of_limits(share); });
  if (worst != last_->shares.end())
    what +=
        fmt::format("; worst: {}, {:.3g} % saturated, {:.3g} % flushed",
                    engine_.fp8()->products()[static_cast<size_t>(worst - last_->shares.begin())],
                    100 * worst->saturated, 100 * worst->flushed);
  if (verdict == Guard::Verdict::counts)
    what +=
        fmt::format("; check {} of {} in a row that counts", guard_->beyond(), options_.patience);
  if (verdict == Guard::Verdict::falls_back)
    what += fmt::format("; {} of {} products run in 16 bits for {} steps", guard_->num_wide(),
                        engine_.fp8()->products().size(), options_.quiet);
  log::warning("{}", what);
}

void Fp8Watch::add_to(report::StepMetrics& metrics) const {
  if (!last_) return;
  metrics.fp8_loss_difference = last_->difference();
  metrics.fp8_gradient_cosine = last_->cosine;
  metrics.fp8_products_in_16_bits = static_cast<double>(guard_->num_wide());
  double saturated = 0, flushed = 0;
  for (const precision::OperandShares& share : last_->shares) {
    saturated = std::max(saturated, share.saturated);
    flushed = std::max(flushed, share.flushed);
  }
  if (last_->shares.empty()) return;
  metrics.fp8_saturated = saturated;
  metrics.fp8_flushed = flushed;
}

nlohmann::json Fp8Watch::to_json() const { return guard_ ? guard_->to_json() : nlohmann::json(); }

void Fp8Watch::restore(const nlohmann::json& json) {
  if (!guard_) return;
  guard_->restore(json);
  apply();
}

}  // namespace megalith::train
