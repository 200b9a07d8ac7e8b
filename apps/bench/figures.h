// SPDX-License-Identifier: Apache-2.0
// What the benchmarks share: how a figure is sampled and said.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apps/recipe_options.h"
#include "base/clock.h"
#include "base/thread_pool.h"
#include "device/device.h"
#include "engine/settings.h"
#include "families/families.h"
#include "inference/inference_engine.h"
#include "kernels/exec.h"

namespace megalith::apps {

struct BenchOptions {
  int threads = 0;
  int samples = 5;
  int count() const { return threads > 0 ? threads : available_cores(); }
};

/// Reports one figure: the median of its samples.
void report(const std::string& name, std::vector<double> samples, const std::string& unit,
            bool higher_is_better, int threads, bool json);

/// `work` units over the seconds of a call.
template <typename Body>
double rate(double work, const Body& body) {
  const double begin = monotonic_seconds();
  body();
  return work / (monotonic_seconds() - begin);
}

/// Rates of `count` calls, after one call to warm up.
template <typename Body>
std::vector<double> rates(int count, double work, const Body& body) {
  body();
  std::vector<double> samples;
  for (int i = 0; i < count; ++i) samples.push_back(rate(work, body));
  return samples;
}

/// FLOP/s of the best matrix product here, whatever its type and arithmetic: what shares are of.
/// A machine's speed changes within seconds, so a share is of what was measured just before and
/// after.
class BestGemm {
 public:
  explicit BestGemm(int threads);
  /// Measures again, the kind that was fastest at first; about a third of a second.
  double flops_per_second() { return flops_per_second(kind_); }
  /// `count` samples of every kind in turn, in GFLOP/s: "exact.f32" and so on.
  std::map<std::string, std::vector<double>> ceilings(int count);

 private:
  struct Kind {
    const char* name;
    const char* entry;  // of the list of implementations
    DType dtype;
  };
  static constexpr Kind kKinds[] = {{"exact", "exact", DType::f32},
                                    {"exact", "exact", DType::bf16},
                                    {"library", "onednn", DType::f32},
                                    {"library", "onednn", DType::bf16}};
  double flops_per_second(const Kind& kind);

  std::unique_ptr<device::Device> device_;
  Kind kind_ = kKinds[0];
};

/// Samples of a rate in FLOP/s, and each over the best product's around it.
struct SharedRates {
  std::vector<double> rates;   // of body()
  std::vector<double> best;    // between them
  std::vector<double> shares;  // %
};

/// `count` samples of `work` FLOPs by body(), which has warmed up.
template <typename Body>
SharedRates rates_beside_best(int count, double work, BestGemm& best, const Body& body) {
  SharedRates all;
  all.best.push_back(best.flops_per_second());
  for (int i = 0; i < count; ++i) {
    all.rates.push_back(rate(work, body));
    all.best.push_back(best.flops_per_second());
    all.shares.push_back(100 * all.rates.back() / ((all.best.end()[-1] + all.best.end()[-2]) / 2));
  }
  return all;
}

int bench_gemm(const BenchOptions& options, bool json);

/// Of the text of a file, with the tokenizer of another.
int bench_tokenizer(const text::Tokenizer& tokenizer, const std::string& input,
                    const BenchOptions& options, bool json);

/// Files; empty: a schema and a text of ours.
struct GrammarInput {
  std::string schema, text;
};
int bench_grammar(const text::Tokenizer& tokenizer, const GrammarInput& input,
                  const BenchOptions& options, bool json);

/// What a recipe's layout is measured beside.
struct LayoutsComparison {
  std::vector<std::string> beside;  // overrides of the other side, which is one rank unless told
  bool passes = false;              // forward and backward alone
};
int bench_layouts(const RecipeOptions& recipe_options, const LayoutsComparison& comparison,
                  const BenchOptions& options, bool json);

struct MachineOutput {
  std::string path;
  int ranks = 0;    // 0: one for each core
  int threads = 0;  // of a rank; 0: its part of the cores
};
/// Writes this machine as a cluster file.
int bench_machine(const MachineOutput& output, const BenchOptions& options, bool json);

int bench_train(const RecipeOptions& recipe_options, const BenchOptions& options, bool json);

struct DecodeShape {
  std::string checkpoint;  // empty: of `family` and `sizes`, with made-up weights
  models::Sizes sizes;
  std::string family = "gpt2", dtype = "bf16", quantize, numerics = "exact";
  int64_t prompt = 64, tokens = 128;
  bool profile = false;  // of as many further tokens
  int64_t batch = 0;     // texts at once, by the server's generator; 0: one, by itself
  int64_t new_tokens() const { return (profile ? 2 : 1) * tokens; }
};
int bench_decode(const DecodeShape& shape, const BenchOptions& options, bool json);
/// Of `shape.batch` prompts that are read and continued together.
int bench_texts(const DecodeShape& shape, const BenchOptions& options,
                inference::InferenceEngine& engine, bool json);

/// A model and the lines that it makes vectors of.
struct EmbedInput {
  std::string checkpoint, input, dtype = "f32";
  bool profile = false;
};
int bench_embed(const EmbedInput& input, const BenchOptions& options, bool json);

}  // namespace megalith::apps
