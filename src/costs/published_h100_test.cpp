// SPDX-License-Identifier: Apache-2.0
// The cost model judged by published tables of the H100. Nothing is fitted to these: rates are
// those that were measured on one card (recipes/clusters/h100.yaml). Left out are rows of context
// parallelism and of fully sharded weights, which layouts here do not have.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "costs/published_run.h"
#include "costs/step_time.h"

namespace megalith::costs {
namespace {

const clusters::Cluster& h100() {
  static const clusters::Cluster cluster =
      clusters::load_cluster(std::filesystem::path(MEGA_SOURCE_DIR) / "recipes/clusters/h100.yaml");
  return cluster;
}

double error_of(const std::string& what, double predicted, double published) {
  const double error = predicted / published - 1;
  fmt::print("{:<32} {:9.3f} published {:9.3f}  {:+.1f} %\n", what, predicted, published,
             100 * error);
  return std::abs(error);
}

StepTime step_of(PublishedRun run) {
  run.streaming = run.zero = true;
  run.sequence = run.tensor > 1;
  const engine::Settings s = settings_of(run);
  return StepTimes(s, h100()).simulated(s);
}

struct Pair {
  PublishedRun run;
  double bf16_seconds, fp8_seconds;
};

/// dgxc-benchmarking v25.01.1.
std::vector<Pair> pairs() {
  PublishedRun gpt3{"GPT-3 175B", 96, 12288, 96, 4, 8, 12, 128, 256, 1};
  std::vector<Pair> pairs;
  for (const auto& [devices, batch, bf16, fp8] :
       {std::tuple{128, 256, 8.91, 5.92}, {1024, 2048, 9.01, 6.72}, {2048, 4096, 9.02, 6.24}}) {
    gpt3.devices = devices;
    gpt3.global_batch = batch;
    pairs.push_back({gpt3, bf16, fp8});
  }
  PublishedRun nemotron{"Nemotron-4 15B", 48, 6144, 32, 4, 1, 1, 16, 64, 4};
  nemotron.length = 4096;
  nemotron.vocab = 256000;
  nemotron.kv_heads = 8;
  pairs.push_back({nemotron, 2.83, 2.08});
  return pairs;
}

struct Rate {
  PublishedRun run;
  double tokens_per_second;  // of a device
};

/// NeMo 2.0's documentation, FP8.
std::vector<Rate> rates() {
  std::vector<Rate> rates{{{"GPT-3 5B", 32, 4096, 24, 1, 1, 1, 64, 2048, 4}, 23574},
                          {{"GPT-3 20B", 48, 6144, 44, 2, 1, 1, 64, 256, 2}, 5894},
                          {{"GPT-3 175B", 96, 12288, 96, 4, 8, 6, 128, 256, 1}, 745},
                          {{"GPT-3 175B", 96, 12288, 96, 4, 8, 6, 512, 2048, 2}, 832},
                          {{"Llama 2 7B", 32, 4096, 32, 1, 1, 1, 8, 128, 1}, 16634},
                          {{"Llama 2 13B", 40, 5120, 40, 1, 4, 10, 16, 128, 1}, 8715},
                          {{"Llama 2 70B", 64, 8192, 80, 4, 4, 20, 64, 128, 1}, 1717},
                          {{"Nemotron 8B", 32, 4096, 32, 2, 1, 1, 64, 256, 4}, 12507},
                          {{"Nemotron 22B", 48, 6144, 40, 2, 4, 10, 64, 256, 2}, 4289},
                          {{"Nemotron 340B", 96, 18432, 96, 8, 8, 12, 128, 32, 1}, 328}};
  const int64_t ffn[] = {11008, 13824, 28672};
  for (size_t i = 4; i < rates.size(); ++i) rates[i].run.length = 4096;
  for (size_t i = 4; i < 7; ++i) {
    rates[i].run.gated = true;
    rates[i].run.vocab = 32000;
    rates[i].run.ffn = ffn[i - 4];
  }
  rates[6].run.kv_heads = rates[9].run.kv_heads = 8;
  for (size_t i = 7; i < 10; ++i) rates[i].run.vocab = 256000;
  for (Rate& rate : rates) rate.run.fp8 = true;
  return rates;
}

/// Megatron-LM's README as of Megatron-Core 0.8, BF16: TFLOP/s of a device.
const struct {
  PublishedRun run;
  double teraflops;
} kReadme[] = {
    {{"1.7B", 16, 2048, 24, 1, 1, 1, 48, 192, 1}, 408.8},
    {{"7.1B", 32, 4096, 30, 2, 1, 1, 96, 192, 1}, 465.9},
    {{"16B", 48, 6144, 32, 4, 1, 1, 192, 192, 1}, 489.1},
    {{"32B", 56, 7168, 48, 8, 1, 1, 384, 192, 1}, 459.6},
    {{"70B", 64, 8192, 84, 8, 2, 1, 768, 384, 1}, 419.7},
    {{"119B", 80, 10240, 92, 8, 4, 1, 1536, 768, 1}, 420.5},
    {{"177B", 96, 12288, 96, 8, 6, 1, 2304, 1152, 1}, 432.8},
    {{"314B", 128, 16384, 96, 8, 8, 1, 3072, 1536, 1}, 474.4},
    {{"462B", 144, 18432, 112, 8, 16, 1, 6144, 3072, 1}, 459.9},
};

/// The README names neither micro-batches nor chunks: of those that divide, the best.
double best_teraflops(PublishedRun run) {
  run.length = 4096;
  run.vocab = 131072;
  double best = 0;
  for (const int64_t micro_batch : {1, 2, 4}) {
    const int64_t data = run.devices / (run.tensor * run.pipeline);
    if (run.global_batch % (micro_batch * data) != 0) continue;
    for (int chunks = 1; chunks <= run.layers / run.pipeline; ++chunks) {
      if (run.layers % (run.pipeline * chunks) != 0 || (run.pipeline == 1 && chunks > 1)) continue;
      run.micro_batch = micro_batch;
      run.chunks = chunks;
      const StepTime step = step_of(run);
      best =
          std::max(best, step.model_flops / step.seconds / 1e12 / static_cast<double>(run.devices));
    }
  }
  return best;
}

TEST(PublishedH100, Steps) {
  std::vector<double> errors;
  for (const Pair& pair : pairs()) {
    PublishedRun run = pair.run;
    const std::string name = fmt::format("{} on {}", run.name, run.devices);
    const double bf16 = step_of(run).seconds;
    run.fp8 = true;
    const double fp8 = step_of(run).seconds;
    errors.push_back(error_of(name + " BF16", bf16, pair.bf16_seconds));
    errors.push_back(error_of(name + " FP8", fp8, pair.fp8_seconds));
    error_of(name + " gain", bf16 / fp8, pair.bf16_seconds / pair.fp8_seconds);
    EXPECT_NEAR(bf16 / fp8, pair.bf16_seconds / pair.fp8_seconds, 0.1) << name;
  }
  for (const Rate& rate : rates()) {
    const double tokens = static_cast<double>(rate.run.global_batch * rate.run.length) /
                          static_cast<double>(rate.run.devices);
    errors.push_back(error_of(fmt::format("{} on {}, tokens/s", rate.run.name, rate.run.devices),
                              tokens / step_of(rate.run).seconds, rate.tokens_per_second));
  }
  for (const auto& row : kReadme)
    errors.push_back(
        error_of(std::string(row.run.name) + ", TFLOP/s", best_teraflops(row.run), row.teraflops));
  std::ranges::sort(errors);
  fmt::print("median {:.1f} %, worst {:.1f} %\n", 100 * errors[errors.size() / 2],
             100 * errors.back());
  EXPECT_LE(errors[errors.size() / 2], 0.15);
}

}  // namespace
}  // namespace megalith::costs
