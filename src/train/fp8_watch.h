// SPDX-License-Identifier: Apache-2.0
// What a run does about products in 8 bits that go wrong, as its recipe says
// (precision.fp8.guard): checks them against 16 bits, says what it finds, and takes them back for a
// while where they are too far off. Part of the checkpoint, so that a resumed run does the same.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>

#include "data/host_batch.h"
#include "engine/engine.h"
#include "precision/guard.h"
#include "report/metrics.h"

namespace megalith::train {

class Fp8Watch {
 public:
  /// Does nothing where no product is in 8 bits. `engine` must outlive it; every rank judges, from
  /// numbers that all have, and one of them `speaks`.
  Fp8Watch(engine::Engine& engine, bool speaks);

  /// Before the step is taken, with its micro-batches. Collective.
  void before_step(int64_t step, std::span<const data::HostBatch> micro_batches);
  /// What the check before this step found, into its line.
  void add_to(report::StepMetrics& metrics) const;

  nlohmann::json to_json() const;
  /// IntegrityError when it is not what to_json gives.
  void restore(const nlohmann::json& json);

 private:
  void bring_back(int64_t step);
  void apply();
  void say(int64_t step, precision::Guard::Verdict verdict) const;
  engine::Engine& engine_;
  bool speaks_;
  precision::GuardOptions options_;
  std::optional<precision::Guard> guard_;
  std::optional<precision::GuardCheck> last_;  // of the step at hand
};

}  // namespace megalith::train
