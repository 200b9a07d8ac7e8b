// SPDX-License-Identifier: Apache-2.0
#include "account/memory_fit.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "account/plan.h"
#include "base/error.h"

namespace megalith::account {
namespace {

using config::Recipe;

struct Change {
  Recipe recipe;
  std::vector<std::string> words;  // "train.micro_batch=2"
};

Change with_streamed_saves(Change c) {
  if (!c.recipe.checkpoint.async) return c;
  c.recipe.checkpoint.async = false;
  c.words.emplace_back("checkpoint.async=false");
  return c;
}

Change with_recompute(Change c, config::Recompute mode) {
  if (c.recipe.memory.recompute >= mode) return c;
  c.recipe.memory.recompute = mode;
  c.words.push_back(fmt::format("memory.recompute={}", mode));
  return c;
}

Change with_micro_batch(Change c, int64_t micro_batch) {
  if (c.recipe.train.micro_batch == micro_batch) return c;
  c.recipe.train.micro_batch = micro_batch;
  c.words.push_back(fmt::format("train.micro_batch={}", micro_batch));
  return c;
}

Change with_bf16(Change c) {
  if (c.recipe.precision.compute != config::Compute::f32) return c;
  c.recipe.precision.compute = config::Compute::bf16;
  c.words.emplace_back("precision.compute=bf16 (which changes the result)");
  return c;
}

class Search {
 public:
  Search(PlannedBytes planned, int64_t limit) : planned_(planned), limit_(limit) {}

  /// The recipe's own plan with the fewest changes that fit; nothing when none does.
  std::optional<Change> smallest(const Recipe& recipe) {
    const Change none{recipe, {}};
    for (const bool bf16 : {false, true}) {
      const Change base = bf16 ? with_bf16(none) : none;
      if (bf16 && base.words.empty()) break;
      // All changes together take least: if that does not fit, nothing of this kind does.
      least_ =
          with_micro_batch(with_recompute(with_streamed_saves(base), config::Recompute::full), 1);
      if (!fits(least_)) continue;
      for (const bool streamed : {false, true}) {
        const Change from = streamed ? with_streamed_saves(base) : base;
        for (const auto mode :
             {config::Recompute::none, config::Recompute::selective, config::Recompute::full}) {
          const Change candidate = with_recompute(from, mode);
          if (fits(candidate)) return candidate;
          if (mode == config::Recompute::none || mode == config::Recompute::full) {
            if (auto smaller = largest_micro_batch(candidate)) return smaller;
          }
        }
      }
    }
    return std::nullopt;
  }

  /// The candidate that takes least of all that were tried.
  const Change& least() const { return least_; }
  int64_t bytes_of(const Change& change) { return planned_(change.recipe); }

 private:
  bool fits(const Change& change) { return bytes_of(change) <= limit_; }

  /// The largest micro-batch below the recipe's with which `change` fits.
  std::optional<Change> largest_micro_batch(const Change& change) {
    const int64_t now = change.recipe.train.micro_batch;
    std::vector<int64_t> sizes;  // divisors of what is divided already: every rule still holds
    for (int64_t size = 1; size <= now / 2; ++size) {
      if (now % size == 0) sizes.push_back(size);
    }
    const auto too_large = std::partition_point(sizes.begin(), sizes.end(), [&](int64_t size) {
      return fits(with_micro_batch(change, size));
    });
    if (too_large == sizes.begin()) return std::nullopt;
    return with_micro_batch(change, *(too_large - 1));
  }

  PlannedBytes planned_;
  int64_t limit_;
  Change least_;
};

std::string exact_bytes_text(int64_t bytes) {
  return fmt::format("{} ({} bytes)", bytes_text(bytes), bytes);
}

}  // namespace

void check_memory(const Recipe& recipe, PlannedBytes planned,
                  const device::AvailableMemory& available, int64_t processes) {
  const int64_t reserve = kOutsideBytes * processes;
  const int64_t needed = planned(recipe);
  if (needed <= available.bytes() - reserve) return;
  Search search(planned, available.bytes() - reserve);
  const auto change = search.smallest(recipe);
  std::string advice;
  if (change) {
    advice = fmt::format("set {}, which plans {}", fmt::join(change->words, " and "),
                         exact_bytes_text(search.bytes_of(*change)));
  } else {
    advice = fmt::format("even with {} it plans {}: use a smaller model, or more memory",
                         fmt::join(search.least().words, " and "),
                         exact_bytes_text(search.bytes_of(search.least())));
  }
  throw UserError("this run does not fit into memory: it plans {} and {} beside, and {}; {}",
                  exact_bytes_text(needed), exact_bytes_text(reserve), available.text(), advice);
}

std::vector<int> judged_by(int rank, std::span<const std::string> names) {
  const std::string& own = names[static_cast<size_t>(rank)];
  std::vector<int> ranks;
  for (size_t r = 0; r < names.size(); ++r) {
    if (names[r] == own) ranks.push_back(static_cast<int>(r));
  }
  return ranks.front() == rank ? ranks : std::vector<int>();
}

}  // namespace megalith::account
