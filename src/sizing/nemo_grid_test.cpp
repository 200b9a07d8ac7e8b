// SPDX-License-Identifier: Apache-2.0
// Against what the functions of NeMo-Megatron-Launcher's auto_configurator (training_config.py,
// utils.py, compare_throughput.py of 4550dc9) gave, and what its own tests expect of them.
#include "sizing/nemo_grid.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace megalith::sizing {
namespace {

using Values = std::vector<int64_t>;

/// Its tests' cases (tests/code_tests/test_training_config.py).
TEST(NemoGrid, WhatItsOwnTestsExpect) {
  const Values most = {1, 2, 3, 4, 6, 8}, few = {1, 2, 4, 6, 8};
  const auto gpt = [](double size, int64_t layers, int64_t sequence, int memory_gb = 80) {
    return nemo_grid(size, layers, sequence, memory_gb, NemoFamily::gpt);
  };
  EXPECT_EQ(gpt(0.126, 12, 2048), (NemoGrid{{1, 2}, {1}, most, 1, 8}));
  EXPECT_EQ(gpt(0.126, 12, 8192), (NemoGrid{{1, 2}, {1, 2}, {1, 2, 4}, 1, 8}));
  EXPECT_EQ(gpt(0.843, 12, 16384), (NemoGrid{{2, 4}, {1}, {1, 2}, 1, 8}));
  EXPECT_EQ(gpt(0.843, 12, 32768), (NemoGrid{{2, 4}, {1, 2}, {1}, 1, 8}));
  EXPECT_EQ(gpt(2, 12, 2048), (NemoGrid{{1, 2, 4}, {1}, most, 1, 8}));
  EXPECT_EQ(gpt(5, 24, 16384), (NemoGrid{{2, 4}, {1, 2}, {1}, 1, 8}));
  EXPECT_EQ(gpt(8, 24, 4096), (NemoGrid{{1, 2, 4}, {1, 2}, {1, 2, 4}, 1, 8}));
  EXPECT_EQ(gpt(10, 24, 2048), (NemoGrid{{1, 2, 4, 8}, {1}, most, 1, 8}));
  EXPECT_EQ(gpt(10, 24, 32768), (NemoGrid{{4, 8}, {1, 2}, {1}, 4, 16}));
  EXPECT_EQ(gpt(20, 44, 2048), (NemoGrid{{1, 2, 4}, {1, 2, 4}, {1, 2, 4}, 4, 8}));
  EXPECT_EQ(gpt(20, 44, 8192), (NemoGrid{{4, 8}, {1, 2, 4}, {1}, 8, 32}));
  EXPECT_EQ(gpt(43, 52, 2048), (NemoGrid{{2, 4, 8}, {1, 2, 4}, {1, 2, 4}, 8, 32}));
  EXPECT_EQ(gpt(43, 52, 4096), (NemoGrid{{4, 8}, {2, 4}, {1, 2}, 8, 32}));
  EXPECT_EQ(gpt(175, 96, 2048), (NemoGrid{{8}, {4, 6, 8, 12, 16}, {1, 2, 4}, 32, 256}));
  const auto t5 = [](double size, int64_t layers) {
    return nemo_grid(size, layers, 512, 80, NemoFamily::t5);
  };
  EXPECT_EQ(t5(0.22, 12), (NemoGrid{{1, 2}, {1}, {16, 32, 64, 128}, 1, 8}));
  EXPECT_EQ(t5(3, 24), (NemoGrid{{1, 2, 4}, {1}, {4, 6, 8, 12, 16, 24, 32, 48}, 1, 8}));
  EXPECT_EQ(t5(11, 24), (NemoGrid{{4, 8}, {1}, {2, 4, 6, 8, 12, 16, 24}, 1, 8}));
  EXPECT_EQ(t5(23, 36), (NemoGrid{{4, 8}, {1, 2}, few, 4, 16}));
  EXPECT_EQ(t5(41, 48), (NemoGrid{{4, 8}, {1, 2, 4}, few, 8, 32}));
  // A length that it has no table of: what it starts from.
  EXPECT_EQ(gpt(175, 96, 1000), (NemoGrid{{1, 2, 4, 8}, {1}, most, 1, 8}));
  EXPECT_THROW(gpt(5, 24, 2048, 64), UserError);
  EXPECT_THROW(nemo_grid(251, 96, 512, 80, NemoFamily::bert), UserError);
}

uint64_t hashed(uint64_t digest, const std::string& text) {
  for (const char c : text) digest = (digest ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return digest;
}

/// Whether the tool has a list for each micro-batch: it keeps one for each layer.
bool runs(const NemoModel& m, const std::vector<NemoCandidate>& all) {
  const int64_t stacks = m.family == NemoFamily::gpt || m.family == NemoFamily::bert ? 1 : 2;
  return m.block || std::ranges::all_of(all, [&](const NemoCandidate& c) {
           return c.micro_batch <= stacks * m.layers;
         });
}

struct Digest {
  int64_t grids = 0, candidates = 0;
  uint64_t value = 1469598103934665603u;
  void add(const NemoModel& m) {
    const std::vector<NemoCandidate> all = nemo_candidates(m);
    if (!runs(m, all)) return;
    ++grids;
    for (const NemoCandidate& c : all) value = hashed(value, file_name(c) + "\n");
    candidates += std::ssize(all);
    value = hashed(value, "\n");
  }
};

constexpr double kSizes[] = {0.126, 0.5,   0.9, 1,    1.2,  2,      3.5,   4,    4.03, 5,    7.9,
                             8,     8.1,   11,  11.2, 11.3, 13,     13.1,  14.5, 20,   20.6, 23,
                             25,    25.9,  26,  40,   43,   45,     45.6,  46.5, 59,   60,   85.5,
                             87.5,  95,    100, 123,  130,  131.07, 165.5, 175,  195,  196,  250,
                             250.5, 310.1, 392, 500,  735,  790,    1008,  1100};

Digest of_all(NemoFamily family, int memory_gb) {
  constexpr int64_t kVocab[] = {51200, 30522, 29184, 250112};
  constexpr std::pair<int64_t, int64_t> kNodesAndBatch[] = {
      {1, 2048}, {3, 1920}, {8, 1024}, {20, 1920}, {128, 2048}};
  const Values lengths =
      family == NemoFamily::gpt ? Values{2048, 4096, 8192, 16384, 32768, 1000} : Values{512};
  Digest digest;
  for (const int64_t sequence : lengths) {
    for (const double size : kSizes) {
      NemoShape shape;
      try {
        shape = nemo_shape(size, kVocab[static_cast<size_t>(family)], sequence, family);
      } catch (const UserError&) {
        continue;
      }
      for (const auto& [nodes, batch] : kNodesAndBatch)
        for (const bool block : {false, true})
          digest.add({size, shape.layers, shape.heads, sequence, batch, 8 * nodes, memory_gb,
                      family, block});
    }
  }
  return digest;
}

/// FNV-1a of the names of the candidates' files in the order of the runs.
TEST(NemoGrid, CandidatesOfAllSizesInItsOrder) {
  struct Case {
    NemoFamily family;
    int memory_gb;
    int64_t grids, candidates;
    uint64_t digest;
  };
  constexpr Case kCases[] = {{NemoFamily::gpt, 80, 3120, 231382, 14202728828690893563u},
                             {NemoFamily::gpt, 40, 3120, 435465, 12972631495357210757u},
                             {NemoFamily::bert, 80, 450, 36643, 16284080138162559888u},
                             {NemoFamily::bert, 40, 450, 37114, 15184597887399756503u},
                             {NemoFamily::t5, 80, 423, 16330, 1616984222252967199u},
                             {NemoFamily::t5, 40, 426, 14830, 2985160082347448900u},
                             {NemoFamily::mt5, 80, 420, 15048, 13976359560959603927u},
                             {NemoFamily::mt5, 40, 423, 13297, 17916718380865537996u}};
  for (const Case& c : kCases) {
    const Digest digest = of_all(c.family, c.memory_gb);
    EXPECT_EQ(digest.grids, c.grids) << name_in_files(c.family) << c.memory_gb;
    EXPECT_EQ(digest.candidates, c.candidates) << name_in_files(c.family) << c.memory_gb;
    EXPECT_EQ(digest.value, c.digest) << name_in_files(c.family) << c.memory_gb;
  }
}

TEST(NemoGrid, OfThe175BOn128Nodes) {
  const auto all = nemo_candidates({175, 96, 96, 2048, 2048, 1024});
  ASSERT_EQ(all.size(), 9u);
  EXPECT_EQ(all[1], (NemoCandidate{8, 8, 1, 12}));
  EXPECT_EQ(all.back(), (NemoCandidate{8, 16, 4, 6}));
  EXPECT_EQ(file_name(all[0]), "tp_8_pp_4_mbs_1_act_ckpt_None_num_mbs_act_None_act_per_pipe_None");
  EXPECT_EQ(table_name(all[0]), "tp8_pp4_mbs1_act_None_num_mbs_act_None_act_per_pipe_None");
}

/// By hand, of 12 layers 768 wide, 1024 tokens of 50304 kinds, 8 samples a step.
TEST(NemoGrid, OperationsOfAStepAreItsTables) {
  const NemoShape shape{12, 768, 12, 0, 0, 0};
  EXPECT_DOUBLE_EQ(nemo_step_flops(shape, 8, 50304, 1024, 0, NemoFamily::gpt),
                   (24.0 * 8 * 1024 * 768 * 768 + 4.0 * 8 * 1024 * 1024 * 768) * 36 +
                       6.0 * 8 * 1024 * 768 * 50304);
  // The two formulas are one: s / 6h is attention, v / 12hL the logits.
  EXPECT_NEAR(nemo_step_flops(shape, 8, 50304, 1024, 0, NemoFamily::bert) /
                  nemo_step_flops(shape, 8, 50304, 1024, 0, NemoFamily::gpt),
              1, 1e-12);
  // Of t5 with as long a target: 16 + 4 s/h + 12 f/h of a layer of each stack, and 4 h of cross.
  const NemoShape t5{2, 64, 2, 128, 32, 0};
  EXPECT_DOUBLE_EQ(nemo_step_flops(t5, 1, 100, 16, 16, NemoFamily::t5),
                   3 * (2 * (2.0 * (8 * 16 * 64 * 64 + 4 * 16 * 16 * 64 + 6 * 16 * 64 * 128) +
                             8 * 16 * 64 * 64 + 4 * 16 * 16 * 64) +
                        2.0 * 16 * 64 * 100));
}

}  // namespace
}  // namespace megalith::sizing
