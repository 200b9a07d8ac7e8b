// SPDX-License-Identifier: Apache-2.0
// Scales that go wrong in the middle of a run: the guard sees each fault within three checks, what
// it takes back into 16 bits heals the run, and the loss at the end is that of a run in 16 bits.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "math/random.h"
#include "train/loop_fixture.h"

namespace megalith::train {
namespace {

using precision::Operand;

constexpr int64_t kVocab = 64, kBranches = 4;
constexpr int64_t kBegin = 60, kSteps = 360, kEvery = 10;

/// A chain in which each token is followed by one of four, all equally likely: what can be learned
/// is a table, and log 4 is left.
std::vector<int32_t> chain(uint64_t seed, int64_t length) {
  std::vector<int32_t> ids;
  int32_t id = 1;
  for (int64_t i = 0; i < length; ++i) {
    ids.push_back(id);
    const uint64_t branch = random_key(seed, static_cast<uint64_t>(i)) % kBranches;
    id =
        static_cast<int32_t>(random_key(random_key(7, static_cast<uint64_t>(id)), branch) % kVocab);
  }
  return ids;
}

/// What is done to a run before its steps.
using Plant = std::function<void(engine::Engine&, int64_t step)>;

struct Outcome {
  double loss = 0;                    // mean of the last steps
  std::optional<int64_t> falls_back;  // the step before which products first fell back
  double most_wide = 0;               // products in 16 bits
};

class Fp8FaultsTest : public LoopTest {
 protected:
  Fp8FaultsTest() {
    data::write_corpus(folder_ / "chain", {chain(1, 60000)});
    recipe_.data.train = {{(folder_ / "chain").string(), {}}};
    recipe_.model.layers = 3;
    recipe_.model.hidden = 64;
    recipe_.model.heads = 4;
    recipe_.model.context = 32;
    recipe_.model.vocab = kVocab;
    recipe_.train.steps = kSteps;
    recipe_.train.global_batch = 8;
    recipe_.train.micro_batch = 8;
    recipe_.optimizer.lr = 3e-3;
    recipe_.checkpoint.every = kSteps;
    recipe_.precision.fp8.history = 16;
    recipe_.precision.fp8.guard.every = kEvery;
    config::resolve(recipe_);
  }

  Outcome outcome(config::Compute compute, const Plant& plant) {
    fs::remove_all(out());
    recipe_.precision.compute = compute;
    Hooks hooks;
    hooks.before_step = [&](engine::Engine& engine, int64_t step) { plant(engine, step); };
    EXPECT_EQ(run(hooks).status, "finished");
    Outcome outcome;
    const auto lines = lines_of(out() / "metrics.jsonl");
    constexpr int64_t kLast = 40;
    for (const nlohmann::json& line : lines) {
      const auto step = line["step"].get<int64_t>();
      if (step > kSteps - kLast) outcome.loss += line["loss"].get<double>() / kLast;
      const double wide = line.value("fp8_products_in_16_bits", 0.0);
      outcome.most_wide = std::max(outcome.most_wide, wide);
      if (wide > 0 && !outcome.falls_back) outcome.falls_back = step;
    }
    return outcome;
  }

  /// The guard with its defaults against `plant`, which does nothing before step kBegin; `weights`
  /// is what is done to the run in 16 bits as well, whose outcome this returns.
  Outcome expect_healed(const Plant& plant, int64_t harmful_from = kBegin,
                        const Plant& weights = {}) {
    const Plant nothing = [](engine::Engine&, int64_t) {};
    const Outcome wide = outcome(config::Compute::bf16, weights ? weights : nothing);
    const Outcome guarded = outcome(config::Compute::fp8, plant);
    EXPECT_TRUE(guarded.falls_back);
    EXPECT_LE(guarded.falls_back.value_or(kSteps), harmful_from + 2 * kEvery);
    EXPECT_NEAR(guarded.loss, wide.loss, 0.005 * wide.loss);
    EXPECT_EQ(guarded.most_wide, 4);  // of the planted layer
    return wide;
  }

  /// Whether a product is of the middle layer.
  static bool is_planted(const std::string& name) { return name.starts_with("layers.1."); }
  static void for_planted(engine::Engine& engine, Operand operand,
                          const std::function<void(View history, float& scale)>& change) {
    if (engine.fp8() == nullptr) return;
    const precision::Scaling& scaling = engine.fp8()->scaling(operand);
    for (size_t n = 0; n < scaling.names().size(); ++n) {
      if (is_planted(scaling.names()[n]))
        change(scaling.history().columns(static_cast<int64_t>(n), 1),
               scaling.scale().as<float>()[n]);
    }
    engine.fp8()->restored();
  }
};

/// Nothing is wrong: nothing falls back, and the loss is that of 16 bits.
TEST_F(Fp8FaultsTest, AHealthyRunIsLeftAlone) {
  const Plant nothing = [](engine::Engine&, int64_t) {};
  const Outcome wide = outcome(config::Compute::bf16, nothing);
  const Outcome narrow = outcome(config::Compute::fp8, nothing);
  EXPECT_FALSE(narrow.falls_back);
  EXPECT_NEAR(narrow.loss, wide.loss, 0.0025 * wide.loss);
}

TEST_F(Fp8FaultsTest, ScalesThatAreSixteenTimesTooLarge) {
  expect_healed([](engine::Engine& engine, int64_t step) {
    if (step < kBegin) return;
    for_planted(engine, Operand::input, [](View history, float& scale) {
      float amax = 0;
      for (int64_t i = 0; i < history.size(0); ++i) amax = std::max(amax, *history.row<float>(i));
      scale = amax > 0 ? 16 * 448 / amax : 16;
    });
  });
}

/// The magnitude of output gradients is lost: their scale stays what it is at the beginning.
TEST_F(Fp8FaultsTest, AMagnitudeThatIsStuck) {
  expect_healed([](engine::Engine& engine, int64_t step) {
    if (step < kBegin) return;
    for_planted(engine, Operand::output_gradient, [](View history, float& scale) {
      for (int64_t i = 0; i < history.size(0); ++i) *history.row<float>(i) = 0;
      scale = 1;
    });
  });
}

/// One of the channels that the middle layer's MLP reads is `factor` times as large, and the
/// weights that read it as much smaller: nothing to bf16, whose numbers each have an exponent.
class Outlier {
 public:
  void set(engine::Engine& engine, float factor) {
    constexpr int64_t kChannel = 5;
    const View gain_H = engine.parameters().find("layers.1.norm_2.weight")->master();
    const View up_FH = engine.parameters().find("layers.1.mlp.up.weight")->master();
    if (up_F_.empty()) {
      gain_ = gain_H.as<float>()[kChannel];
      for (int64_t f = 0; f < up_FH.size(0); ++f) up_F_.push_back(up_FH.row<float>(f)[kChannel]);
    }
    gain_H.as<float>()[kChannel] = gain_ * factor;
    for (int64_t f = 0; f < up_FH.size(0); ++f)
      up_FH.row<float>(f)[kChannel] = up_F_[static_cast<size_t>(f)] / factor;
  }

 private:
  float gain_ = 1;
  std::vector<float> up_F_;
};

/// Factors of 2 every `steps`, from `first` on.
float grown(int64_t step, int64_t steps, float first) {
  return first * std::exp2(static_cast<float>(step - kBegin) / static_cast<float>(steps));
}

/// Scales stay those of a step long ago, while what they are for grows.
TEST_F(Fp8FaultsTest, AHistoryThatIsNotRolled) {
  std::optional<std::vector<float>> old;
  std::optional<Outlier> outlier;
  const Plant weights = [&](engine::Engine& engine, int64_t step) {
    if (step == 1) old.reset(), outlier.emplace();
    if (step >= kBegin) outlier->set(engine, std::min(grown(step, 10, 1), 4096.0f));
  };
  const Plant plant = [&](engine::Engine& engine, int64_t step) {
    weights(engine, step);
    if (step < kBegin) return;
    const View scale = engine.fp8()->scaling(Operand::input).scale();
    const std::span now(scale.as<float>(), static_cast<size_t>(scale.size(0)));
    if (!old) old.emplace(now.begin(), now.end());
    std::ranges::copy(*old, now.begin());
    engine.fp8()->restored();
  };
  expect_healed(plant, kBegin + 30, weights);
}

/// One channel grows until the others are too small beside it for one scale.
TEST_F(Fp8FaultsTest, OutliersThatGrow) {
  std::optional<Outlier> outlier;
  const Plant weights = [&](engine::Engine& engine, int64_t step) {
    if (step == 1) outlier.emplace();
    if (step >= kBegin) outlier->set(engine, grown(step, 50, 8192));
  };
  // From 2^16 on a third of the others' codes are 0.
  const Outcome wide = expect_healed(weights, kBegin + 160, weights);
  recipe_.precision.fp8.guard.every = 0;
  EXPECT_GT(outcome(config::Compute::fp8, weights).loss, 1.005 * wide.loss);
}

}  // namespace
}  // namespace megalith::train
