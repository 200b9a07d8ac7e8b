// SPDX-License-Identifier: Apache-2.0
// The state that a checkpoint's manifest holds, of which a resume takes its position, what its last
// step owes and its guard. What is taken is written such that it is taken again and is the same.
#include <nlohmann/json.hpp>

#include "base/fuzz/fuzz_input.h"
#include "base/json_fault.h"
#include "guards/run_guard.h"
#include "train/deferred_work.h"
#include "train/position.h"

namespace {

using namespace megalith;

void take_position(const nlohmann::json& state) {
  const train::Position position = train::position_from(state);
  MEGA_CHECK(position.step >= 0 && position.samples >= 0 && position.tokens >= 0);
  const nlohmann::json written = train::to_json(position);
  MEGA_CHECK(train::to_json(train::position_from(written)) == written);
  fuzz::accepts([&] {
    const auto owed = train::deferred_from(state, position.step);
    if (!owed) return;
    const nlohmann::json again{{"owed", train::to_json(*owed)}};
    MEGA_CHECK(train::to_json(*train::deferred_from(again, position.step)) == again["owed"]);
  });
}

void take_guard(const nlohmann::json& state) {
  config::TrainSection recipe;
  recipe.spike = config::Spike::rewind;
  guards::RunGuard guard(recipe, false), again(recipe, false);
  guard.restore(state);
  again.restore(guard.to_json());
  MEGA_CHECK(again.to_json() == guard.to_json());
  MEGA_CHECK(guard.skipped_steps() >= 0 && guard.rewinds() >= 0);
  try {
    for (const double loss : {1.0, 2.0, 1e300, -1e300}) guard.observe(1, loss);
    guard.rewound(guard.rewinds(), 8);
  } catch (const DoNotRestartError&) {  // the recipe's rewinds are used up
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  if (json_fault(text)) return 0;  // no manifest holds it
  const auto state = nlohmann::json::parse(text);
  fuzz::accepts([&] { take_position(state); });
  fuzz::accepts([&] { train::deferred_from(state, 3); });
  if (!state.is_object()) return 0;
  if (state.contains("guard")) fuzz::accepts([&] { take_guard(state["guard"]); });
  return 0;
}
