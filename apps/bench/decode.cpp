// SPDX-License-Identifier: Apache-2.0
// megalith bench decode: prefill and cached decoding of a model with made-up weights, beside what
// memory and the matrix products allow.
#include <fmt/format.h>

#include "account/profile.h"
#include "apps/bench/figures.h"
#include "engine/inference_model.h"
#include "families/families.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/reduction/read_bandwidth.h"

namespace megalith::apps {
namespace {

constexpr int64_t kTokensInTurn = 4;

models::ModelSpec model_of(const DecodeShape& shape) {
  return models::family_named(shape.family, "bench decode: --family")
      .make(shape.sizes, "bench decode");
}

/// Weights as a training run would draw them: numbers that are all alike make for sums that are.
void draw_weights(parameters::ParameterSet& set, kernels::Exec& exec) {
  constexpr uint64_t kSeed = 1;
  for (parameters::Parameter& parameter : set.all()) {
    std::vector<float> host(static_cast<size_t>(parameter.local_elements()));
    initial_value(parameter, kSeed, DType::f32, host.data());
    const device::Tensor drawn = exec.workspace.tensor(DType::f32, parameter.local_shape());
    exec.device.wait(exec.device.copy_to_device(drawn, host.data()));
    kernels::cast(exec, drawn, parameter.mutable_compute());
    parameter.mark_changed();
  }
}

/// Where the time of `tokens` decoded tokens goes.
void print_decode_profile(engine::InferenceModel& model, device::Device& device,
                          engine::KvCache& cache, std::span<const int32_t> id, int64_t tokens,
                          BestGemm& best) {
  kernels::Exec exec(device);
  const account::Roofline roofline{best.flops_per_second(),
                                   kernels::read_bandwidth(exec, int64_t{512} << 20, 0.2)};
  device::Recorder recorder;
  device.set_recorder(&recorder);
  const double begin = monotonic_seconds();
  for (int64_t n = 0; n < tokens; ++n) model.engine().extend(cache, id);
  const double seconds = monotonic_seconds() - begin;
  device.set_recorder(nullptr);
  fmt::print(stderr, "{}",
             account::to_text(account::profile_of(recorder, tokens, seconds, roofline), roofline));
}

/// FLOPs of reading a prompt, as its kernels record them.
double prompt_flops(engine::InferenceModel& model, device::Device& device,
                    std::span<const int32_t> ids) {
  engine::KvCache cache = model.engine().make_cache(static_cast<int64_t>(ids.size()));
  device::Recorder recorder;
  device.set_recorder(&recorder);
  model.engine().extend(cache, ids);
  device.set_recorder(nullptr);
  return recorder.total().flops;
}

/// What one token reads: every weight but the input tables (a tied table is the head), and the
/// cache up to the middle of the text.
int64_t bytes_of_token(engine::InferenceModel& model, const DecodeShape& d, DType dtype) {
  int64_t bytes = 0;
  for (const layers::LayerSpec& layer : model.spec().layers) {
    const layers::AttentionSpec& attention = layer.attention;
    bytes +=
        2 * attention.kv_heads * attention.head_dim * bytes_of(dtype) * (d.prompt + d.tokens / 2);
  }
  for (const auto& parameter : model.parameters().all()) {
    const bool is_input_table = parameter.name().starts_with("position") ||
                                (!model.spec().head.tied && parameter.name() == "embedding.weight");
    if (!is_input_table) bytes += parameter.compute().view.bytes();
  }
  return bytes;
}

}  // namespace

int bench_decode(const DecodeShape& d, const BenchOptions& o, bool json) {
  const models::ModelSpec spec = model_of(d);
  spec.check("bench decode");
  if (spec.is_encoder_decoder())
    throw UserError(
        "bench decode: {} reads one text and writes another; it times models of one stack",
        spec.family);
  const int64_t positions = d.prompt + (d.profile ? 2 : 1) * d.tokens;
  if (positions > d.sizes.context) {
    throw UserError(
        "bench decode: a prompt of {} tokens and {} more are beyond the context of {}; give fewer, "
        "or a longer --context",
        d.prompt, positions - d.prompt, d.sizes.context);
  }
  engine::InferenceModel::Options options;
  const auto device = device::make_device(device::cpu_target(o.count()));
  options.compute = d.dtype == "bf16" ? DType::bf16 : DType::f32;
  engine::InferenceModel model(spec, *device, options);
  kernels::Exec exec(*device);
  draw_weights(model.parameters(), exec);
  std::vector<int32_t> ids(static_cast<size_t>(d.prompt));
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int32_t>((1 + static_cast<int64_t>(i) % 1000) % d.sizes.vocab);
  const auto one = std::span(ids).first(1);
  const int64_t bytes = bytes_of_token(model, d, options.compute);
  const double flops = prompt_flops(model, *device, ids);
  BestGemm best(o.count());
  kernels::StreamingReads reading(exec, bytes);
  SharedRates prompts;
  std::vector<double> decode_rates, bandwidths, shares;
  for (int i = 0; i < o.samples; ++i) {
    engine::KvCache cache = model.engine().make_cache(positions);
    const SharedRates prompt =
        rates_beside_best(1, flops, best, [&] { model.engine().extend(cache, ids); });
    prompts.rates.push_back(prompt.rates[0] / flops * static_cast<double>(d.prompt));
    prompts.shares.push_back(prompt.shares[0]);
    // The machine's bandwidth changes within fractions of a second: some tokens and some passes
    // over a buffer in turn, and the means of both.
    double decode_seconds = 0, read_seconds = 0;
    for (int64_t n = 0; n < d.tokens; n += kTokensInTurn) {
      const int64_t count = std::min(kTokensInTurn, d.tokens - n);
      decode_seconds += 1 / rate(1, [&] {
                          for (int64_t token = 0; token < count; ++token)
                            model.engine().extend(cache, one);
                        });
      read_seconds += reading.seconds_of_a_pass() * static_cast<double>(count);
    }
    decode_rates.push_back(static_cast<double>(d.tokens) / decode_seconds);
    bandwidths.push_back(1e-9 * static_cast<double>(bytes * d.tokens) / read_seconds);
    shares.push_back(100 * read_seconds / decode_seconds);
    if (d.profile && i == o.samples - 1)
      print_decode_profile(model, *device, cache, one, d.tokens, best);
  }
  report("decode.prompt_tokens_per_second", prompts.rates, "tokens/s", true, o.count(), json);
  report("decode.tokens_per_second", decode_rates, "tokens/s", true, o.count(), json);
  report("decode.read_bandwidth", bandwidths, "GB/s", true, o.count(), json);
  report("decode.share_of_read_bandwidth", shares, "%", true, o.count(), json);
  report("decode.prompt_share_of_best_gemm", prompts.shares, "%", true, o.count(), json);
  return 0;
}

}  // namespace megalith::apps
