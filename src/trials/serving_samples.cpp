// SPDX-License-Identifier: Apache-2.0
#include "trials/serving_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/clock.h"
#include "device/recorder.h"
#include "families/families.h"
#include "generate/sampling.h"
#include "inference/shaped_pass.h"
#include "store/quantization.h"
#include "trials/placed_ranks.h"

namespace megalith::trials {
namespace {

using inference::ShapedRows;

struct ServedShape {
  const char* family;
  int64_t layers, hidden, heads, kv_heads, ffn, vocab;
};
// 50 to 70 million weights each, so that those in blocks of 4 bits are more than a cache, too.
constexpr ServedShape kServedShapes[] = {{"gpt2", 4, 1024, 16, 16, 4096, 12288},
                                         {"llama", 5, 896, 14, 7, 2560, 20480},
                                         {"qwen3", 3, 1280, 10, 5, 3584, 16384}};
constexpr Format kFormats[] = {Format::bf16, Format::q8_0, Format::q4_0, Format::q4_1};
constexpr int64_t kServedContext = 512, kMostSequences = 16;

// Prompts, alone and several at once; then texts that are written, early and late.
constexpr ShapedRows kPasses[] = {{1, 24, 0},  {1, 80, 0},  {1, 256, 0}, {3, 64, 0},  {1, 96, 320},
                                  {1, 1, 40},  {1, 1, 400}, {2, 1, 150}, {3, 1, 300}, {6, 1, 90},
                                  {8, 1, 250}, {12, 1, 60}, {16, 1, 200}};

models::ModelSpec served_spec(const ServedShape& shape) {
  models::Sizes sizes;
  sizes.layers = shape.layers;
  sizes.hidden = shape.hidden;
  sizes.heads = shape.heads;
  sizes.kv_heads = shape.kv_heads;
  sizes.ffn = shape.ffn;
  sizes.context = kServedContext;
  sizes.vocab = shape.vocab;
  return models::family_named(shape.family, "trials").make(sizes, "trials");
}

/// The fastest records of one kind of pass.
class FastestPass {
 public:
  void add(const device::Recorder& recorder, double pass_seconds) {
    double inside = 0;
    calls_ = 0;
    for (const device::Record& record : recorder.records()) {
      inside += record.seconds;
      calls_ += static_cast<double>(record.calls);
      const auto [place, is_new] = records_.try_emplace({record.name, record.scope}, record);
      if (!is_new) place->second.seconds = std::min(place->second.seconds, record.seconds);
    }
    outside_ = std::min(outside_, pass_seconds - inside);
  }
  void give(double logit_bytes, std::vector<KernelSample>& samples) const {
    constexpr auto kType = clusters::ProductType::bf16;
    for (const auto& [place, record] : records_)
      samples.push_back({record.name, kType, static_cast<double>(record.calls), record.work.flops,
                         static_cast<double>(record.work.bytes_read + record.work.bytes_written),
                         record.seconds});
    samples.push_back(
        {std::string(clusters::kOutsideKernels), kType, calls_, 0, logit_bytes, outside_});
  }

 private:
  std::map<std::pair<std::string, std::string>, device::Record> records_;
  double outside_ = std::numeric_limits<double>::infinity(), calls_ = 0;
};

void sample_served(const ServedShape& shape, Format format, const SamplingOptions& options,
                   comm::Communicator& world, device::Device& device,
                   std::vector<KernelSample>& samples) {
  const models::ModelSpec spec = served_spec(shape);
  inference::InferenceModel::Options how{.compute = DType::bf16};
  if (!is_plain(format)) how.formats = store::formats_in_blocks(spec, how.tensor_shards, format);
  inference::InferenceModel model(spec, device, how);
  // Whatever the weights are, they are in memory.
  for (parameters::Parameter& parameter : model.parameters().all())
    device.wait(device.fill_zero(parameter.mutable_compute()));
  inference::ShapedPasses passes(model.engine(), kMostSequences, kServedContext);
  for (const ShapedRows& rows : kPasses) {
    FastestPass fastest;
    // The first warms up.
    for (int step = 0; step <= options.steps; ++step) {
      device::Recorder recorder;
      world.barrier("pass");
      if (step > 0) device.set_recorder(&recorder);
      const double begin = monotonic_seconds();
      passes.run({&rows, 1}, [](std::span<const float> logits) {
        generate::choose_token(logits, {.temperature = 0}, {});
      });
      const double seconds = monotonic_seconds() - begin;
      device.set_recorder(nullptr);
      if (step > 0) fastest.add(recorder, seconds);
    }
    const auto logits = static_cast<double>(rows.sequences * spec.vocab);
    if (world.rank() == 0) fastest.give(4 * logits, samples);
  }
}

double intensity_of(const KernelSample& sample) {
  return sample.bytes > 0 ? sample.flops / sample.bytes : 0;
}

/// Where the rates of one kernel change: above one row, and where rows are many. `samples`: with
/// rising intensities.
std::vector<double> ends_of(std::span<const KernelSample> samples) {
  constexpr double kOneRow = 1.5, kFewRows = 20;  // times the least intensity
  constexpr std::ptrdiff_t kLeastSamples = 6;
  const double least = intensity_of(samples.front());
  std::vector<double> ends;
  if (least <= 0) return ends;
  std::ptrdiff_t begin = 0;
  for (const double end : {kOneRow * least, kFewRows * least}) {
    const auto above = std::ranges::upper_bound(samples, end, {}, intensity_of);
    const std::ptrdiff_t at = above - samples.begin();
    if (at - begin < kLeastSamples || std::ssize(samples) - at < kLeastSamples) continue;
    ends.push_back(end);
    begin = at;
  }
  return ends;
}

}  // namespace

std::vector<KernelSample> sample_passes(const SamplingOptions& options) {
  std::vector<KernelSample> all;
  on_placed_ranks(
      options.ranks, options.threads, [&](comm::Communicator& world, device::Device& device) {
        for (const ServedShape& shape : kServedShapes) {
          for (const Format format : kFormats) {
            sample_served(shape, format, options, world, device, all);
            if (world.rank() == 0 && options.progress)
              options.progress(fmt::format("{} {}x{} in {}, prompts and text", shape.family,
                                           shape.layers, shape.hidden, format));
          }
        }
      });
  return all;
}

std::vector<FittedRate> fit_serving_rates(std::vector<KernelSample> samples) {
  std::map<std::pair<std::string, clusters::ProductType>, std::vector<KernelSample>> by_kernel;
  for (KernelSample& sample : samples)
    if (sample.seconds > 0) by_kernel[{sample.name, sample.type}].push_back(std::move(sample));
  std::vector<FittedRate> rates;
  for (auto& [kernel, of_kernel] : by_kernel) {
    std::ranges::stable_sort(of_kernel, {}, intensity_of);
    std::vector<double> ends = ends_of(of_kernel);
    ends.push_back(0);
    auto begin = of_kernel.begin();
    for (const double end : ends) {
      const auto above =
          end > 0 ? std::ranges::upper_bound(of_kernel, end, {}, intensity_of) : of_kernel.end();
      rates.push_back(fit_rate(std::span<const KernelSample>(begin, above)));
      rates.back().rate.most_intensity = end;
      begin = above;
    }
  }
  return rates;
}

}  // namespace megalith::trials
