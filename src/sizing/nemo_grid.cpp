// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <span>

#include "base/error.h"
#include "sizing/nemo_grid.h"

namespace megalith::sizing {
namespace {

/// Up to eight values, 0 behind the last.
using GridValues = std::array<int64_t, 8>;
/// GridStages that are listed, or those from `first` to `last` that the layers divide into.
struct GridStages {
  GridValues listed;
  int64_t first = 0, last = 0;
};
constexpr GridStages from(int64_t first, int64_t last) { return {{}, first, last}; }
constexpr GridStages only(GridValues listed) { return {listed}; }

struct GridRow {
  double most;  // 10^9 parameters
  GridValues tensor;
  GridStages pipeline;
  GridValues micro_batch;
  int64_t least = 1, all = 8;
};
struct GridTable {
  NemoFamily family;
  int memory_gb;
  int64_t sequence;  // 0: any
  std::span<const GridRow> rows;
};

constexpr GridValues kMost = {1, 2, 3, 4, 6, 8};
constexpr GridRow kGptGrid2048[] = {
    {1, {1, 2}, only({1}), kMost},
    {4, {1, 2, 4}, only({1}), kMost},
    {8, {1, 2, 4}, only({1}), kMost},
    {13, {1, 2, 4, 8}, only({1}), kMost},
    {23, {1, 2, 4}, from(1, 4), {1, 2, 4}, 4, 8},
    {45, {2, 4, 8}, from(1, 4), {1, 2, 4}, 8, 32},
    {95, {2, 4, 8}, from(1, 8), {1, 2, 4, 8}, 8, 64},
    {130, {2, 4, 8}, from(1, 16), {1, 2, 4, 8}, 16, 128},
    {195, {8}, from(4, 16), {1, 2, 4}, 32, 256},
    {395, {8}, from(8, 32), {1, 2, 4}, 64, 512},
    {790, {8}, from(8, 100), {1, 2, 4}, 128, 1024},
    {1100, {8}, from(16, 130), {1, 2, 4}, 256, 2048},
};
constexpr GridRow kGptGrid4096[] = {
    {1, {1, 2, 4}, only({1}), {1, 2, 4, 8}}, {4, {1, 2, 4}, only({1}), {1, 2, 4, 8}},
    {8, {1, 2, 4}, from(1, 2), {1, 2, 4}},   {13, {2, 4}, from(1, 2), {1, 2, 4}},
    {23, {4, 8}, from(1, 2), {1, 2}, 4, 16}, {45, {4, 8}, from(2, 4), {1, 2}, 8, 32},
    {95, {4, 8}, from(1, 8), {1, 2}, 8, 64},
};
constexpr GridRow kGptGrid8192[] = {
    {1, {1, 2}, from(1, 2), {1, 2, 4}},   {4, {1, 2, 4}, from(1, 2), {1, 2, 4}},
    {8, {2, 4}, from(1, 2), {1, 2}},      {13, {2, 4}, from(1, 2), {1, 2}},
    {23, {4, 8}, from(1, 4), {1}, 8, 32}, {45, {8}, from(4, 8), {1}, 32, 64},
};
constexpr GridRow kGptGrid16k[] = {
    {1, {2, 4}, only({1}), {1, 2}},       {4, {2, 4}, from(1, 2), {1}},
    {8, {2, 4}, from(1, 2), {1}},         {13, {2, 4}, from(1, 2), {1}},
    {23, {4, 8}, from(2, 4), {1}, 8, 32},
};
constexpr GridRow kGptGrid32k[] = {
    {1, {2, 4}, from(1, 2), {1}},        {4, {2, 4}, from(1, 2), {1}},
    {8, {4, 8}, from(1, 2), {1}, 4, 16}, {13, {4, 8}, from(1, 2), {1}, 4, 16},
    {23, {8}, from(2, 4), {1}, 16, 32},
};
constexpr GridValues kMost40 = {1, 2, 4, 6, 8, 10, 12, 16};
constexpr GridRow kGptGrid40[] = {
    {1, {1, 2, 4}, only({1}), {1, 2, 4, 8}},        {4, {1, 2, 4, 8}, only({1}), {1, 2, 4, 8}},
    {8, {2, 4, 8}, only({1, 2}), {1, 2, 4}, 2, 8},  {13, {4, 8}, only({1, 2, 4}), {1, 2, 4}, 4, 32},
    {23, {2, 4, 8}, from(1, 8), kMost40, 8, 64},    {45, {4, 8}, from(1, 12), {1, 2, 4}, 16, 128},
    {95, {4, 8}, from(1, 16), {1, 2, 4}, 16, 256},  {130, {4, 8}, from(2, 26), {1, 2}, 32, 512},
    {195, {4, 8}, from(2, 32), {1, 2}, 64, 1024},   {395, {4, 8}, from(4, 64), {1, 2}, 128, 2048},
    {790, {4, 8}, from(8, 128), {1, 2}, 256, 4096}, {1100, {4, 8}, from(8, 192), {1, 2}, 512, 8192},
};
constexpr GridRow kBertGrid80[] = {
    {1, {1, 2}, only({1}), kMost},
    {4, {1, 2, 4}, only({1}), kMost},
    {8, {2, 4, 8}, only({1}), kMost, 2, 8},
    {13, {2, 4, 8}, only({1}), {1, 2, 3, 4, 6}, 2, 8},
    {25, {4, 8}, only({1}), {1, 2, 3, 4}, 4, 8},
    {46.5, {4, 8}, only({1, 2, 4}), {1, 2, 3, 4}, 4, 16},
    {87.5, {4, 8}, only({2, 4, 6, 8}), {1, 2, 3, 4}, 8, 32},
    {165.5, {4, 8}, only({4, 6, 8, 16}), {2, 4, 6, 8}, 16, 128},
    {250.5, {8}, only({4, 8, 16, 32}), {1, 2, 3, 4}, 32, 256},
};
constexpr GridRow kBertGrid40[] = {
    {1, {1, 2, 4}, only({1}), {1, 2, 4, 6, 8}},
    {4, {1, 2, 4, 8}, only({1}), {1, 2, 4, 6, 8}},
    {8, {2, 4, 8}, only({1}), {1, 2, 4}},
    {13, {2, 4, 8}, only({1}), {1, 2, 4}},
    {25, {2, 4, 8}, only({1, 2}), {1, 2, 4}, 2, 16},
    {46.5, {4, 8}, only({1, 2, 4, 8}), {1, 2, 3}, 8, 32},
    {87.5, {4, 8}, only({2, 4, 6, 8}), {1, 2, 3}, 16, 64},
    {165.5, {8}, only({4, 6, 8, 16}), {1, 2}, 32, 256},
    {250.5, {8}, only({8, 16, 32}), {1, 2}, 64, 512},
};
constexpr GridValues kT5Few = {1, 2, 4, 6, 8};
constexpr GridRow kT5Grid80[] = {
    {1, {1, 2}, only({1}), {16, 32, 64, 128}},
    {4, {1, 2, 4}, only({1}), {4, 6, 8, 12, 16, 24, 32, 48}},
    {8, {2, 4, 8}, only({1}), {4, 6, 8, 12, 16, 24, 32}},
    {14.5, {4, 8}, only({1}), {2, 4, 6, 8, 12, 16, 24}},
    {25.9, {4, 8}, from(1, 2), kT5Few, 4, 16},
    {43, {4, 8}, from(1, 4), kT5Few, 8, 32},
    {85.5, {4, 8}, from(2, 8), kT5Few, 16, 64},
    {165.5, {8}, from(4, 16), {1, 2, 4, 6}, 32, 128},
    {250, {8}, from(4, 32), kT5Few, 64, 256},
};
constexpr GridRow kT5Grid40[] = {
    {1, {1, 2}, only({1}), {16, 32, 64, 128}},
    {4, {1, 2, 4}, only({1}), {4, 8, 12, 16, 24, 32, 48}},
    {8, {2, 4, 8}, only({1}), {4, 6, 8, 12, 16, 24}},
    {14.5, {4, 8}, from(1, 2), {2, 4, 6, 8, 12, 16}, 4, 16},
    {25.9, {4, 8}, from(1, 8), kT5Few, 8, 32},
    {43, {4, 8}, from(1, 8), kT5Few, 16, 32},
    {85.5, {8}, from(2, 8), kT5Few, 32, 64},
    {165.5, {8}, from(4, 32), {1, 2, 4}, 64, 128},
    {250, {8}, from(8, 64), {1, 2, 4}, 128, 256},
};
/// Beyond the rows: what the tool starts from.
constexpr GridRow kGptStart80 = {0, {1, 2, 4, 8}, only({1}), kMost};
constexpr GridRow kGptStart40 = {0, {1, 2, 4, 8}, only({1}), kMost40};
constexpr GridRow kT5Start = {0, {1, 2, 4, 8}, only({1}), {1, 2, 4, 6, 8, 12, 16}};

constexpr GridTable kGridTables[] = {
    {NemoFamily::gpt, 80, 2048, kGptGrid2048}, {NemoFamily::gpt, 80, 4096, kGptGrid4096},
    {NemoFamily::gpt, 80, 8192, kGptGrid8192}, {NemoFamily::gpt, 80, 16384, kGptGrid16k},
    {NemoFamily::gpt, 80, 32768, kGptGrid32k}, {NemoFamily::gpt, 40, 0, kGptGrid40},
    {NemoFamily::bert, 80, 0, kBertGrid80},    {NemoFamily::bert, 40, 0, kBertGrid40},
    {NemoFamily::t5, 80, 0, kT5Grid80},        {NemoFamily::t5, 40, 0, kT5Grid40},
};

const GridRow& grid_row(double size, int64_t sequence, int memory_gb, NemoFamily family) {
  if (family == NemoFamily::mt5) family = NemoFamily::t5;
  for (const GridTable& table : kGridTables) {
    if (table.family != family || table.memory_gb != memory_gb) continue;
    if (table.sequence != 0 && table.sequence != sequence) continue;
    for (const GridRow& row : table.rows)
      if (size <= row.most) return row;
  }
  if (family == NemoFamily::bert)
    throw UserError("--nemo has no candidates for {} billion parameters, the most of bert is 250.5",
                    size);
  if (family == NemoFamily::t5) return kT5Start;
  return memory_gb == 80 ? kGptStart80 : kGptStart40;
}

std::vector<int64_t> list_of(const GridValues& values) {
  std::vector<int64_t> list;
  for (const int64_t value : values)
    if (value > 0) list.push_back(value);
  return list;
}

/// Numbers of stages that the tool takes for possible: of t5 both stacks have as many.
std::vector<int64_t> stages_of(const GridStages& stages, int64_t layers, NemoFamily family) {
  if (stages.last == 0) return list_of(stages.listed);
  const bool has_two_stacks = family == NemoFamily::t5 || family == NemoFamily::mt5;
  std::vector<int64_t> list;
  const auto add = [&](int64_t value) {
    if (stages.first <= value && value <= stages.last) list.push_back(value);
  };
  if (has_two_stacks) add(1);
  for (int64_t d = 1; d <= layers; ++d)
    if (layers % d == 0) add(has_two_stacks ? 2 * d : d);
  return list;
}

}  // namespace

NemoGrid nemo_grid(double size, int64_t layers, int64_t sequence, int memory_gb,
                   NemoFamily family) {
  if (memory_gb != 40 && memory_gb != 80)
    throw UserError("--nemo has tables for GPUs of 40 and 80 GB, not of {}", memory_gb);
  const GridRow& row = grid_row(size, sequence, memory_gb, family);
  return {list_of(row.tensor), stages_of(row.pipeline, layers, family), list_of(row.micro_batch),
          row.least, row.all};
}

}  // namespace megalith::sizing
