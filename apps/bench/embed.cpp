// SPDX-License-Identifier: Apache-2.0
// megalith bench embed: vectors of texts, from the lines of a file to pooled rows.
#include <fmt/format.h>

#include "account/profile.h"
#include "apps/bench/figures.h"
#include "apps/evaluate_lines.h"
#include "inference/inference_model.h"
#include "kernels/reduction/read_bandwidth.h"

namespace megalith::apps {

int bench_embed(const EmbedInput& e, const BenchOptions& o, bool json) {
  const auto source = store::ModelSource::open(e.checkpoint);
  const auto device = device::make_device(device::cpu_target(o.count()));
  const inference::InferenceModel::Options options{
      .compute = e.dtype == "bf16" ? DType::bf16 : DType::f32,
      .tensor_shards = source.tensor_shards()};
  inference::InferenceModel::check(source.spec(), options, e.checkpoint);
  inference::InferenceModel model(source.spec(), *device, options);
  source.fill(model.parameters(), *device);
  inference::SequenceReader reader(model.engine().model());
  int64_t texts = 0, tokens = 0;
  const auto embed = [&] {
    const std::vector<inference::Reading> readings = readings_of(source, e.input);
    texts = std::ssize(reader.embed(readings, kernels::Pooling::mean));
    tokens = 0;
    for (const inference::Reading& reading : readings) tokens += std::ssize(reading.ids);
  };
  device::Recorder recorder;
  device->set_recorder(&recorder);
  embed();
  const double flops = recorder.total().flops;
  if (texts == 0 || flops == 0) throw UserError("{}: no lines to embed", e.input);
  BestGemm best(o.count());
  if (e.profile) {
    kernels::Exec exec(*device);
    const account::Roofline roofline{best.flops_per_second(),
                                     kernels::read_bandwidth(exec, int64_t{512} << 20, 0.2)};
    recorder = {};
    const double seconds = 1 / rate(1, embed);
    fmt::print(stderr, "{}",
               account::to_text(account::profile_of(recorder, 1, seconds, roofline), roofline));
  }
  device->set_recorder(nullptr);
  const SharedRates rates = rates_beside_best(o.samples, flops, best, embed);
  const auto scaled = [&](int64_t units) {
    std::vector<double> samples = rates.rates;
    for (double& rate : samples) rate *= static_cast<double>(units) / flops;
    return samples;
  };
  report("embed.texts_per_second", scaled(texts), "texts/s", true, o.count(), json);
  report("embed.tokens_per_second", scaled(tokens), "tokens/s", true, o.count(), json);
  report("embed.share_of_best_gemm", rates.shares, "%", true, o.count(), json);
  return 0;
}

}  // namespace megalith::apps
