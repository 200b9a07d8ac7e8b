// SPDX-License-Identifier: Apache-2.0
#include "apps/layout_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "engine/sharded_model.h"

namespace megalith::apps {
namespace {

/// Rows of the table of ranks; the rest is like them.
constexpr int kRows = 16;

}  // namespace

void print_layout(const engine::Settings& s, const std::vector<account::MemoryByClass>& memories,
                  int threads) {
  const int ranks = s.layout.num_ranks();
  if (ranks == 1) return;
  std::string text = fmt::format(
      "layout     {} ranks: tensor {} x pipeline {} x data {}, about {} thread{} each\n"
      "           rank  tensor  stage  data  blocks      samples per step  planned memory\n",
      ranks, s.layout.tensor, s.layout.pipeline, s.layout.data, threads, threads == 1 ? "" : "s");
  for (int rank = 0; rank < std::min(ranks, kRows); ++rank) {
    const parallel::Coordinates at = parallel::coordinates_of(s.layout, rank);
    std::string blocks;
    for (int chunk = 0; chunk < s.layout.chunks; ++chunk) {
      const models::Stage part = engine::chunk_at(s, at.pipeline, chunk);
      blocks += fmt::format("{}{}{}-{}{}", chunk > 0 ? ", " : "", part.has_embedding ? "e " : "",
                            part.begin, part.end - 1, part.has_head ? " h" : "");
    }
    text += fmt::format("           {:>4}  {:>6}  {:>5}  {:>4}  {:<10}  {:>16}  {:>14}\n", rank,
                        at.tensor, at.pipeline, at.data, blocks, s.batch.full / s.layout.data,
                        account::bytes_text(memories[static_cast<size_t>(rank)].total));
  }
  if (ranks > kRows) text += fmt::format("           ... and {} more\n", ranks - kRows);
  std::fputs(text.c_str(), stderr);  // a full log must not keep a run from starting
}

}  // namespace megalith::apps
