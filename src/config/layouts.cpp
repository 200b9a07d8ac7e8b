// SPDX-License-Identifier: Apache-2.0
#include "config/layouts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/integer.h"
#include "base/subtree.h"

namespace megalith::config {
namespace {

/// Numbers of ranks up to `limit` that may share `shards` canonical shards.
std::vector<int64_t> fitting(int64_t shards, int64_t limit) {
  std::vector<int64_t> counts;
  for (int64_t n = 1; n <= std::min(shards, limit); ++n) {
    if (blocks_are_subtrees(shards, n)) counts.push_back(n);
  }
  return counts;
}

/// How far two numbers are from each other, as factors.
double distance(int64_t a, int64_t b) {
  return std::abs(std::log2(static_cast<double>(a) / static_cast<double>(b)));
}

}  // namespace

int64_t num_ranks(const Recipe& r) {
  const auto two = checked_multiply(r.parallel.tensor, r.parallel.pipeline);
  const auto all = two ? checked_multiply(*two, r.parallel.data) : std::nullopt;
  return all.value_or(std::numeric_limits<int64_t>::max());
}

std::vector<LayoutChoice> nearest_layouts(const Recipe& recipe, int64_t ranks, size_t count) {
  const ParallelSection& p = recipe.parallel;
  const int64_t limit = std::min<int64_t>(ranks, 1 << 20) * 2;
  std::vector<LayoutChoice> choices;
  for (const int64_t tensor : fitting(p.tensor_shards, limit)) {
    if (!shares_of_heads(tensor, recipe.model.kv_heads)) continue;
    for (const int64_t data : fitting(p.data_shards, limit / tensor)) {
      // The numbers of stages around the one that would give `ranks`, and the recipe's own.
      const int64_t most = recipe.model.all_layers() / std::max<int64_t>(p.chunks, 1);
      const int64_t exact = ranks / (tensor * data);
      for (const int64_t pipeline : std::set<int64_t>{exact, exact + 1, most, p.pipeline, 1}) {
        if (pipeline >= 1 && pipeline <= most && (pipeline > 1 || p.chunks == 1))
          choices.push_back({tensor, pipeline, data});
      }
    }
  }
  const auto order = [&](const LayoutChoice& c) {
    return std::tuple(
        std::abs(c.ranks() - ranks),
        distance(c.tensor, p.tensor) + distance(c.pipeline, p.pipeline) + distance(c.data, p.data),
        c.pipeline, c.tensor);
  };
  std::ranges::sort(choices, {}, order);
  if (choices.size() > count) choices.resize(count);
  return choices;
}

std::string layouts_text(const Recipe& recipe, int64_t ranks) {
  std::vector<std::string> texts;
  for (const LayoutChoice& c : nearest_layouts(recipe, ranks)) {
    texts.push_back(
        fmt::format("parallel.tensor {} x parallel.pipeline {} x parallel.data {} ({} rank{})",
                    c.tensor, c.pipeline, c.data, c.ranks(), c.ranks() == 1 ? "" : "s"));
  }
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ", "));
}

void settle_layout(Recipe& recipe, int64_t ranks) {
  const int64_t named = num_ranks(recipe);
  if (ranks == 0 || ranks == named) return;
  if (named > 1) {
    throw UserError(
        "recipe: {} ranks are there, but parallel.tensor {} x parallel.pipeline {} x parallel.data "
        "{} are {}; layouts that fit: {}",
        ranks, recipe.parallel.tensor, recipe.parallel.pipeline, recipe.parallel.data, named,
        layouts_text(recipe, ranks));
  }
  if (!blocks_are_subtrees(recipe.parallel.data_shards, ranks)) {
    throw UserError(
        "recipe: {} ranks and no parallel.tensor, parallel.pipeline or parallel.data, but "
        "parallel.data_shards {} cannot be spread over {} data ranks; set one of these layouts: {}",
        ranks, recipe.parallel.data_shards, ranks, layouts_text(recipe, ranks));
  }
  recipe.parallel.data = ranks;
}

}  // namespace megalith::config
