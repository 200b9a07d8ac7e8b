// SPDX-License-Identifier: Apache-2.0
// What the benchmarks share: how a figure is sampled and said.
#pragma once

#include <string>
#include <vector>

#include "apps/recipe_options.h"
#include "base/clock.h"
#include "base/thread_pool.h"
#include "data/host_batch.h"
#include "device/device.h"
#include "train/settings.h"

namespace megalith::apps {

struct BenchOptions {
  int threads = 0;
  int samples = 5;
  int count() const { return threads > 0 ? threads : available_cores(); }
};

/// Reports one figure: the median of its samples.
void report(const std::string& name, std::vector<double> samples, const std::string& unit,
            bool higher_is_better, int threads, bool json);

/// Rates of `work` units per call, after one call to warm up.
template <typename Body>
std::vector<double> rates(int count, double work, const Body& body) {
  body();
  std::vector<double> samples;
  for (int i = 0; i < count; ++i) {
    const double begin = monotonic_seconds();
    body();
    samples.push_back(work / (monotonic_seconds() - begin));
  }
  return samples;
}

/// FLOP/s of the best matrix product here, whatever its type and arithmetic: what shares are of.
double best_gemm_rate(const device::Target& target);

/// One data rank's batches of a step with ids that jump about.
std::vector<data::HostBatch> made_up_batches(const train::Settings& settings);

/// What a recipe's layout is measured beside.
struct LayoutsComparison {
  std::vector<std::string> beside;  // overrides of the other side, which is one rank unless told
  bool passes = false;              // forward and backward alone
};
int bench_layouts(const RecipeOptions& recipe_options, const LayoutsComparison& comparison,
                  const BenchOptions& options, bool json);

int bench_train(const RecipeOptions& recipe_options, const BenchOptions& options, bool json);

struct DecodeShape {
  int64_t layers = 12, hidden = 768, heads = 12, vocab = 50257, context = 1024;
  std::string dtype = "bf16", numerics = "fast";
  int64_t prompt = 64, tokens = 128;
  bool profile = false;
};
int bench_decode(const DecodeShape& shape, const BenchOptions& options, bool json);

}  // namespace megalith::apps
