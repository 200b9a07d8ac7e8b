// SPDX-License-Identifier: Apache-2.0
#include "sizing/loss_law.h"

#include <gtest/gtest.h>

#include <cmath>

namespace megalith::sizing {
namespace {

TEST(LossLaw, TheBestSizeIsAMinimum) {
  for (const LossLaw& law : loss_laws()) {
    for (const double flops : {1e19, 5.76e23, 1e26}) {
      const double best = law.best_parameters(flops);
      const auto loss = [&, c = flops](double n) { return law.loss(n, c / (6 * n)); };
      EXPECT_LT(loss(best), loss(best * 1.01)) << law.source;
      EXPECT_LT(loss(best), loss(best / 1.01)) << law.source;
    }
  }
}

/// Chinchilla: 5.76e23 operations. The paper's approach 3 gives 40 billion parameters there (its
/// table 3 has 67 and 63 by the two others); the second fit agrees with those.
TEST(LossLaw, PublishedOptima) {
  EXPECT_NEAR(loss_laws()[0].best_parameters(5.76e23) / 1e9, 32.5, 8);
  EXPECT_NEAR(loss_laws()[1].best_parameters(5.76e23) / 1e9, 70, 10);
  // 20 tokens a parameter, within what Besiroglu et al. give for that law at Chinchilla's budget.
  const double n = loss_laws()[1].best_parameters(5.76e23);
  EXPECT_NEAR(5.76e23 / 6 / n / n, 20, 6);
  // Chinchilla itself, 70 billion and 1.4 trillion: 1.69 + 0.0835 + 0.1625.
  EXPECT_NEAR(loss_laws()[0].loss(70e9, 1.4e12), 1.936, 0.002);
}

}  // namespace
}  // namespace megalith::sizing
