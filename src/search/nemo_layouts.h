// SPDX-License-Identifier: Apache-2.0
// The candidates of NeMo's auto-configurator (sizing/nemo_grid.h) as layouts of this program, and
// layouts that somebody else chose judged one by one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "search/layout_search.h"
#include "sizing/nemo_grid.h"

namespace megalith::search {

/// What the tool would be told of `base`: its shape, batch and length, `size` (10^9 parameters; 0:
/// of the model's own, to two digits). Blocks of recomputed layers are tried where the tool's base
/// files have them (t5) and where the recipe recomputes all layers.
sizing::NemoModel nemo_model(const engine::Settings& base, double size, int64_t gpus,
                             int memory_gb);

struct NemoLayout {
  sizing::NemoCandidate candidate;
  /// With what the tool's base files have beside: optimizer state spread over data ranks, sequence
  /// parallelism above 13 billion parameters but for t5. Absent: no layout of this program is that.
  std::optional<LayoutPoint> point = {};
  std::string fault = {};  // why it is absent
};
/// All of the tool's, in its order.
std::vector<NemoLayout> nemo_layouts(const engine::Settings& base, const sizing::NemoModel& model);

/// Each simulated and planned to the byte, in the order of `points`; whether it fits is for the
/// caller to see. UserError as search_layouts().
std::vector<Candidate> judge_layouts(const engine::Settings& base, const clusters::Cluster& cluster,
                                     const SearchOptions& options,
                                     std::span<const LayoutPoint> points);

}  // namespace megalith::search
