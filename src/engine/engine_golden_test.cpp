// SPDX-License-Identifier: Apache-2.0
// Losses and gradient norms of five steps, to the last bit. They hold on every CPU, whoever made it
// and whatever instruction sets it has. A change of them is a change of the arithmetic (design note
// 0001): every earlier run would resume to other numbers. When that is meant, take the new ones
// from the failure's message and say so in the change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/hex_float.h"
#include "testing/toy_run.h"

namespace megalith::engine {
namespace {

using megalith::testing::run_toy;
using megalith::testing::toy_settings;
using megalith::testing::ToyRun;
using ::testing::ElementsAre;

/// "loss gradient-norm" by step.
std::vector<std::string> lines(const Settings& settings, device::Isa isa) {
  ToyRun run;
  run_toy(settings, 5, {.threads = 1, .isa = isa}, run);
  std::vector<std::string> lines;
  for (size_t i = 0; i < run.loss.size(); ++i) {
    lines.push_back(report::hex_float(run.loss[i]) + " " + report::hex_float(run.grad_norm[i]));
  }
  return lines;
}

class EngineGolden : public ::testing::TestWithParam<device::Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > device::detect_isa()) GTEST_SKIP() << "not on this machine";
  }
};

TEST_P(EngineGolden, F32) {
  EXPECT_THAT(
      lines(toy_settings(), GetParam()),
      ElementsAre("0x1.330644d6p+2 0x1.fd5638b5ff2b8p+0", "0x1.305402fp+2 0x1.cb5840a1ce29p+0",
                  "0x1.3252d016p+2 0x1.38c5979070e38p+0", "0x1.31540f8p+2 0x1.577ab7f744bf2p+0",
                  "0x1.2ad40656p+2 0x1.2dbac8bcf6a65p+0"));
}

TEST_P(EngineGolden, Bf16RaggedUntied) {
  Settings settings = toy_settings();
  settings.weights = settings.activations = DType::bf16;
  settings.ragged = true;
  settings.model.head.tied = false;
  EXPECT_THAT(lines(settings, GetParam()),
              ElementsAre("0x1.303e3268a0474p+2 0x1.0165c1ea5a152p+1",
                          "0x1.2b407956d1409p+2 0x1.10882cd0a5b5p+1",
                          "0x1.2cc727a3ee09p+2 0x1.375889839bb5p+0",
                          "0x1.33f9f1f2a4bbp+2 0x1.1372bcb6c7725p+0",
                          "0x1.2b596a1f2a4bbp+2 0x1.f1e8d85a8d32bp-1"));
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, EngineGolden,
                         ::testing::Values(device::Isa::avx2, device::Isa::avx512,
                                           device::Isa::avx512_bf16));

}  // namespace
}  // namespace megalith::engine
