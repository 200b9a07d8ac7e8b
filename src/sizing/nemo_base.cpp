// SPDX-License-Identifier: Apache-2.0
#include <span>

#include "base/error.h"
#include "sizing/nemo.h"

namespace megalith::sizing {
namespace {

struct BaseRow {
  double most;  // 10^9 parameters
  NemoBase base;
};
struct BaseTable {
  NemoFamily family;
  int memory_gb;
  int64_t sequence;
  std::span<const BaseRow> rows;
};

constexpr BaseRow kGpt2048[] = {
    {1, {256, 1, 1}},       {4, {1024, 1, 1}},    {8, {2048, 2, 1}},     {13, {2048, 4, 1}},
    {20.6, {2048, 8, 1}},   {45.6, {2048, 8, 2}}, {123.6, {2048, 8, 4}}, {196.6, {2048, 8, 8}},
    {392.2, {2048, 8, 16}}, {735, {2048, 8, 32}}, {1100, {2048, 8, 64}}};
constexpr BaseRow kGpt4096[] = {{1, {128, 1, 1}},   {4, {512, 1, 1}},     {8, {1024, 2, 1}},
                                {13, {1024, 4, 1}}, {20.6, {1024, 4, 2}}, {45.6, {1024, 8, 2}}};
constexpr BaseRow kGpt8192[] = {{1, {64, 1, 1}},   {4, {256, 1, 1}},    {8, {512, 2, 1}},
                                {13, {512, 4, 1}}, {20.6, {512, 4, 4}}, {45.6, {512, 8, 2}}};
constexpr BaseRow kGpt16k[] = {
    {1, {32, 2, 1}}, {4, {128, 2, 1}}, {8, {256, 2, 2}}, {13, {256, 4, 1}}, {20.6, {256, 8, 2}}};
constexpr BaseRow kGpt32k[] = {
    {1, {16, 2, 1}}, {4, {64, 2, 1}}, {8, {128, 4, 2}}, {13, {128, 4, 2}}, {20.6, {128, 8, 2}}};
constexpr BaseRow kGpt40[] = {{1, {256, 1, 1}},      {4, {1024, 4, 1}},      {8, {2048, 8, 1}},
                              {13, {2048, 8, 2}},    {20.6, {2048, 8, 4}},   {45.6, {2048, 8, 4}},
                              {123.6, {2048, 8, 8}}, {196.6, {2048, 8, 16}}, {392.2, {2048, 8, 32}},
                              {735, {2048, 8, 64}},  {1100, {2048, 8, 128}}};
constexpr BaseRow kBert80[] = {{1, {256, 1, 1}},     {3.2, {1024, 1, 1}},   {8, {2048, 2, 1}},
                               {13, {2048, 4, 1}},   {25.5, {2048, 8, 1}},  {46.5, {2048, 8, 2}},
                               {87.5, {2048, 8, 4}}, {165.5, {4096, 8, 8}}, {250.5, {2048, 8, 16}}};
constexpr BaseRow kBert40[] = {
    {1, {256, 1, 1}},      {3.2, {1024, 4, 1}},    {8, {2048, 8, 1}},
    {13, {2048, 8, 2}},    {25, {2048, 8, 4}},     {46.5, {2048, 8, 8}},
    {87.5, {2048, 8, 16}}, {165.5, {2048, 8, 32}}, {250.5, {2048, 8, 64}}};
constexpr BaseRow kT5Base[] = {{1, {2048, 1, 1}},    {5, {1920, 2, 1}},      {11.5, {1920, 4, 1}},
                               {18.5, {1920, 8, 1}}, {25.9, {1920, 8, 2}},   {43, {1920, 8, 4}},
                               {85.5, {1920, 8, 8}}, {165.5, {1920, 8, 16}}, {250, {1920, 8, 32}}};

constexpr BaseTable kTables[] = {
    {NemoFamily::gpt, 80, 2048, kGpt2048}, {NemoFamily::gpt, 80, 4096, kGpt4096},
    {NemoFamily::gpt, 80, 8192, kGpt8192}, {NemoFamily::gpt, 80, 16384, kGpt16k},
    {NemoFamily::gpt, 80, 32768, kGpt32k}, {NemoFamily::gpt, 40, 2048, kGpt40},
    {NemoFamily::bert, 80, 512, kBert80},  {NemoFamily::bert, 40, 512, kBert40},
    {NemoFamily::t5, 80, 512, kT5Base},    {NemoFamily::mt5, 80, 512, kT5Base}};

}  // namespace

NemoBase nemo_base(double size, int64_t sequence, int memory_gb, NemoFamily family) {
  for (const BaseTable& table : kTables) {
    if (table.family != family || table.memory_gb != memory_gb || table.sequence != sequence)
      continue;
    for (const BaseRow& row : table.rows)
      if (size <= row.most) return row.base;
    throw UserError(
        "--nemo has no layout for {} billion parameters at --sequence {} on {} GB, the most is {}; "
        "leave out --nemo",
        size, sequence, memory_gb, table.rows.back().most);
  }
  throw UserError(
      "--nemo has no layouts for --sequence {} on --gpu-memory-gb {}; on 80 GB gpt has 2048, 4096, "
      "8192, 16384 and 32768, bert and t5 have 512 (on 40 GB gpt 2048, bert 512); or leave out "
      "--nemo",
      sequence, memory_gb);
}

}  // namespace megalith::sizing
