// SPDX-License-Identifier: Apache-2.0
// Against what the functions of NeMo-Megatron-Launcher's auto_configurator (utils.py) gave.
#include "sizing/nemo.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace megalith::sizing {
namespace {

constexpr NemoFamily kFamilies[] = {NemoFamily::gpt, NemoFamily::bert, NemoFamily::t5,
                                    NemoFamily::mt5};
int64_t vocab_of(NemoFamily family) {
  constexpr int64_t kVocab[] = {51200, 30522, 29184, 250112};
  return kVocab[static_cast<size_t>(family)];
}
int64_t sequence_of(NemoFamily family) { return family == NemoFamily::gpt ? 2048 : 512; }
NemoShape shape_of(double size, NemoFamily family) {
  return nemo_shape(size, vocab_of(family), sequence_of(family), family);
}

TEST(Nemo, SizesOfPublishedBudgets) {
  // The launcher's example (20 nodes of 8 for 5 days, README "5B"); 175B in 34 days and 1T in 84
  // (Narayanan et al. 2021, section 5.1).
  const Budget example{160, 5, 300e9, 140e12}, gpt3{1024, 34, 300e9, 140e12},
      trillion{3072, 84, 450e9, 163e12};
  EXPECT_EQ(nemo_size(example, NemoFamily::gpt), 4.03);
  EXPECT_EQ(nemo_size(gpt3, NemoFamily::gpt), 175.47);
  EXPECT_EQ(nemo_size(gpt3, NemoFamily::mt5), 152.66);
  EXPECT_NEAR(nemo_size(trillion, NemoFamily::gpt), 1008, 0.01 * 1008);
  EXPECT_NEAR(nemo_days(gpt3, 174.6, NemoFamily::gpt), 33.83, 0.005);
  EXPECT_NEAR(nemo_days(trillion, 1008, NemoFamily::gpt), 84, 0.5);
  EXPECT_DOUBLE_EQ(nemo_days(gpt3, 10, NemoFamily::mt5),
                   1.15 * nemo_days(gpt3, 10, NemoFamily::gpt));
}

TEST(Nemo, ShapesOfPublishedModels) {
  // Those of its own configurations (126M, 5B, 20B, 40B, 175B; T5 220M, 11B, 23B, 41B; BERT 110M,
  // 340M, 20B) among them.
  EXPECT_EQ(shape_of(0.126, NemoFamily::gpt), (NemoShape{12, 768, 12, 0, 0, 6e-4}));
  EXPECT_EQ(shape_of(4.03, NemoFamily::gpt), (NemoShape{32, 3072, 32, 0, 0, 1.4e-4}));
  EXPECT_EQ(shape_of(5, NemoFamily::gpt), (NemoShape{24, 4096, 32, 0, 0, 1.2e-4}));
  EXPECT_EQ(shape_of(20, NemoFamily::gpt), (NemoShape{44, 6144, 48, 0, 0, 1e-4}));
  EXPECT_EQ(shape_of(40, NemoFamily::gpt), (NemoShape{48, 8192, 64, 0, 0, 0.8e-4}));
  EXPECT_EQ(shape_of(131.07, NemoFamily::gpt), (NemoShape{72, 12288, 96, 0, 0, 0.6e-4}));
  EXPECT_EQ(shape_of(175, NemoFamily::gpt), (NemoShape{96, 12288, 96, 0, 0, 0.6e-4}));
  EXPECT_EQ(shape_of(310.1, NemoFamily::gpt), (NemoShape{64, 20480, 128, 0, 0, 0.5e-4}));
  EXPECT_EQ(shape_of(1008, NemoFamily::gpt), (NemoShape{128, 25600, 160, 0, 0, 0.3e-4}));
  EXPECT_EQ(shape_of(0.11, NemoFamily::bert), (NemoShape{12, 768, 12, 3072, 0, 2e-4}));
  EXPECT_EQ(shape_of(20, NemoFamily::bert), (NemoShape{44, 6144, 48, 24576, 0, 1e-4}));
  EXPECT_EQ(shape_of(25, NemoFamily::bert), (NemoShape{54, 6144, 48, 24576, 0, 1e-4}));
  EXPECT_EQ(shape_of(0.22, NemoFamily::t5), (NemoShape{12, 768, 12, 2048, 64, 1e-4}));
  EXPECT_EQ(shape_of(11, NemoFamily::t5), (NemoShape{24, 4096, 64, 10240, 64, 1e-4}));
  EXPECT_EQ(shape_of(41, NemoFamily::t5), (NemoShape{48, 6144, 96, 10880, 64, 1e-4}));
  EXPECT_EQ(shape_of(1.1, NemoFamily::mt5), (NemoShape{28, 1024, 16, 2816, 64, 1e-4}));
}

/// Every size of two digits that the tool could recommend: FNV-1a of 10^6 layers + hidden, 0 where
/// it finds no number of layers.
TEST(Nemo, ShapesOfAllSizes) {
  constexpr int kEnds[] = {110500, 25051, 25001, 25001};
  constexpr uint64_t kDigests[] = {17307462264114032177u, 17787077871661385003u,
                                   4068369507898870259u, 6711704256572466867u};
  for (size_t f = 0; f < std::size(kFamilies); ++f) {
    uint64_t digest = 1469598103934665603u;
    for (int hundredths = 5; hundredths < kEnds[f]; ++hundredths) {
      uint64_t value = 0;
      try {
        const NemoShape shape = shape_of(hundredths / 100.0, kFamilies[f]);
        value = static_cast<uint64_t>(shape.layers * 1'000'000 + shape.hidden);
      } catch (const UserError&) {
      }
      digest = (digest ^ value) * 1099511628211u;
    }
    EXPECT_EQ(digest, kDigests[f]) << f;
  }
}

TEST(Nemo, SizesBeyondItsTablesAreRefused) {
  EXPECT_THROW(shape_of(1105, NemoFamily::gpt), UserError);
  EXPECT_THROW(shape_of(250.51, NemoFamily::bert), UserError);
  EXPECT_THROW(shape_of(250.01, NemoFamily::t5), UserError);
  EXPECT_NO_THROW(shape_of(250.5, NemoFamily::bert));
  EXPECT_NO_THROW(shape_of(250, NemoFamily::t5));
}

TEST(Nemo, BaseLayouts) {
  EXPECT_EQ(nemo_base(1, 2048, 80, NemoFamily::gpt), (NemoBase{256, 1, 1}));
  EXPECT_EQ(nemo_base(5, 2048, 80, NemoFamily::gpt), (NemoBase{2048, 2, 1}));
  EXPECT_EQ(nemo_base(175, 2048, 80, NemoFamily::gpt), (NemoBase{2048, 8, 8}));
  EXPECT_EQ(nemo_base(175, 2048, 40, NemoFamily::gpt), (NemoBase{2048, 8, 16}));
  EXPECT_EQ(nemo_base(20, 4096, 80, NemoFamily::gpt), (NemoBase{1024, 4, 2}));
  EXPECT_EQ(nemo_base(4, 512, 80, NemoFamily::bert), (NemoBase{2048, 2, 1}));
  EXPECT_EQ(nemo_base(41, 512, 80, NemoFamily::t5), (NemoBase{1920, 8, 4}));
  EXPECT_THROW(nemo_base(1101, 2048, 80, NemoFamily::gpt), UserError);
  EXPECT_THROW(nemo_base(5, 1000, 80, NemoFamily::gpt), UserError);
  EXPECT_THROW(nemo_base(5, 2048, 64, NemoFamily::gpt), UserError);
}

}  // namespace
}  // namespace megalith::sizing
