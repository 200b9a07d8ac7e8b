// SPDX-License-Identifier: Apache-2.0
// megalith bench decode: a prompt and its greedy continuation by a checkpoint's model or one with
// made-up weights, beside what memory and the matrix products allow. Of an encoder-decoder the
// prompt is what its encoder reads, and the decoder begins.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "account/profile.h"
#include "apps/bench/figures.h"
#include "families/families.h"
#include "generate/sampling.h"
#include "inference/inference_model.h"
#include "kernels/elementwise/pointwise.h"
#include "kernels/reduction/read_bandwidth.h"
#include "store/model_source.h"
#include "store/quantization.h"

namespace megalith::apps {
namespace {

constexpr int64_t kTokensInTurn = 4;

/// UserError where its context does not hold the prompt and the new tokens.
models::ModelSpec model_of(const DecodeShape& d, const std::optional<store::ModelSource>& source) {
  models::ModelSpec spec =
      source
          ? source->spec()
          : models::family_named(d.family, "bench decode: --family").make(d.sizes, "bench decode");
  if (source)
    inference::check_generates(spec);
  else
    spec.check("bench decode");
  const bool reads = spec.is_encoder_decoder();
  const int64_t more = d.new_tokens();
  if (std::max(d.prompt, (reads ? 1 : d.prompt) + more) > spec.context) {
    throw UserError(
        "bench decode: a prompt of {} tokens {} {} more are beyond the context of {}; give fewer, "
        "or a longer --context",
        d.prompt, reads ? "or" : "and", more, spec.context);
  }
  return spec;
}

std::vector<int32_t> made_up_prompt(int64_t tokens, int64_t vocab) {
  std::vector<int32_t> ids(static_cast<size_t>(tokens));
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int32_t>((1 + static_cast<int64_t>(i) % 1000) % vocab);
  return ids;
}

/// Weights as a training run would draw them: numbers that are all alike make for sums that are.
void draw_weights(parameters::ParameterSet& set, kernels::Exec& exec) {
  constexpr uint64_t kSeed = 1;
  for (parameters::Parameter& parameter : set.all()) {
    std::vector<float> host(static_cast<size_t>(parameter.local_elements()));
    initial_value(parameter, kSeed, DType::f32, host.data());
    if (!is_plain(parameter.format())) {
      set.load_blocks(
          exec.device, parameter,
          store::to_blocks(parameter.format(), host, parameter.local_shape()[1]).value());
      continue;
    }
    const device::Tensor drawn = exec.workspace.tensor(DType::f32, parameter.local_shape());
    exec.device.wait(exec.device.copy_to_device(drawn, host.data()));
    kernels::cast(exec, drawn, parameter.mutable_compute());
    parameter.mark_changed();
  }
}

/// A prompt that is read, and the most likely token after it, again and again.
class GreedyText {
 public:
  GreedyText(inference::InferenceEngine& engine, std::span<const int32_t> prompt,
             int64_t new_tokens)
      : engine_(engine),
        begun_(engine.begin(prompt, new_tokens)),
        logits_(engine.extend(begun_.cache, begun_.ids)) {}

  void add(int64_t tokens) {
    for (int64_t n = 0; n < tokens; ++n) {
      const generate::Choice next = generate::choose_token(logits_, {.temperature = 0}, {});
      logits_ = engine_.extend(begun_.cache, std::span(&next.id, 1));
    }
  }

 private:
  inference::InferenceEngine& engine_;
  inference::InferenceEngine::Beginning begun_;
  std::vector<float> logits_;
};

/// Where the time of `tokens` decoded tokens goes.
void print_decode_profile(GreedyText& text, device::Device& device, int64_t tokens,
                          BestGemm& best) {
  kernels::Exec exec(device);
  const account::Roofline roofline{best.flops_per_second(),
                                   kernels::read_bandwidth(exec, int64_t{512} << 20, 0.2)};
  device::Recorder recorder;
  device.set_recorder(&recorder);
  const double seconds = 1 / rate(1, [&] { text.add(tokens); });
  device.set_recorder(nullptr);
  fmt::print(stderr, "{}",
             account::to_text(account::profile_of(recorder, tokens, seconds, roofline), roofline));
}

/// FLOPs of reading a prompt, as its kernels record them.
double prompt_flops(inference::InferenceModel& model, device::Device& device,
                    std::span<const int32_t> ids) {
  device::Recorder recorder;
  device.set_recorder(&recorder);
  const GreedyText begun(model.engine(), ids, 0);
  device.set_recorder(nullptr);
  return recorder.total().flops;
}

/// What one token reads: every weight of its stack but the input tables (a tied table is the head)
/// and what cross attention has multiplied before, the caches up to the middle of the text.
int64_t bytes_of_token(inference::InferenceModel& model, const DecodeShape& d, DType dtype) {
  const models::ModelSpec& spec = model.spec();
  const int64_t begun = spec.is_encoder_decoder() ? 1 : d.prompt;
  const auto cached = [&](const layers::AttentionSpec& attention, int64_t positions) {
    return 2 * attention.kv_heads * attention.head_dim * bytes_of(dtype) * positions;
  };
  int64_t bytes = 0;
  for (int64_t i = spec.encoder_layers; i < spec.num_layers(); ++i) {
    const layers::LayerSpec& layer = spec.layer(i);
    bytes += cached(layer.attention, begun + d.tokens / 2);
    if (layer.cross) bytes += cached(*layer.cross, d.prompt);
  }
  for (const auto& parameter : model.parameters().all()) {
    const std::string& name = parameter.name();
    const bool is_left_out = name.starts_with("position") || name.starts_with("encoder.") ||
                             name.ends_with(".cross.kv.weight") ||
                             (!spec.head.tied && name == "embedding.weight");
    if (!is_left_out) bytes += parameter.compute().view.bytes();
  }
  return bytes;
}

}  // namespace

int bench_decode(const DecodeShape& d, const BenchOptions& o, bool json) {
  std::optional<store::ModelSource> source;
  if (!d.checkpoint.empty()) source.emplace(store::ModelSource::open(d.checkpoint));
  const models::ModelSpec spec = model_of(d, source);
  inference::InferenceModel::Options options;
  const auto device = device::make_device(device::cpu_target(o.count()));
  options.compute = d.dtype == "bf16" ? DType::bf16 : DType::f32;
  options.numerics = d.numerics == "fast" ? kernels::Numerics::fast : kernels::Numerics::exact;
  const auto format = format_from_name(d.quantize);
  if (source) {
    options.tensor_shards = source->tensor_shards();
    options.formats = source->storage_formats(format);
  } else if (format) {
    options.formats = store::formats_in_blocks(spec, options.tensor_shards, *format);
  }
  inference::InferenceModel model(spec, *device, options);
  kernels::Exec exec(*device);
  if (source)
    source->fill(model.parameters(), *device);
  else
    draw_weights(model.parameters(), exec);
  if (d.batch > 0) return bench_texts(d, o, model.engine(), json);
  const std::vector<int32_t> ids = made_up_prompt(d.prompt, spec.vocab);
  const int64_t bytes = bytes_of_token(model, d, options.compute);
  const double flops = prompt_flops(model, *device, ids);
  BestGemm best(o.count());
  kernels::StreamingReads reading(exec, bytes);
  SharedRates prompts;
  std::vector<double> decode_rates, whole_rates, bandwidths, shares;
  for (int i = 0; i < o.samples; ++i) {
    std::optional<GreedyText> text;
    const SharedRates prompt = rates_beside_best(
        1, flops, best, [&] { text.emplace(model.engine(), ids, d.new_tokens()); });
    const double prompt_seconds = flops / prompt.rates[0];
    prompts.rates.push_back(static_cast<double>(d.prompt) / prompt_seconds);
    prompts.shares.push_back(prompt.shares[0]);
    // The machine's bandwidth changes within fractions of a second: some tokens and some passes
    // over a buffer in turn, and the means of both.
    double decode_seconds = 0, read_seconds = 0;
    for (int64_t n = 0; n < d.tokens; n += kTokensInTurn) {
      const int64_t count = std::min(kTokensInTurn, d.tokens - n);
      decode_seconds += 1 / rate(1, [&] { text->add(count); });
      read_seconds += reading.seconds_of_a_pass() * static_cast<double>(count);
    }
    decode_rates.push_back(static_cast<double>(d.tokens) / decode_seconds);
    whole_rates.push_back(static_cast<double>(d.tokens) / (prompt_seconds + decode_seconds));
    bandwidths.push_back(1e-9 * static_cast<double>(bytes * d.tokens) / read_seconds);
    shares.push_back(100 * read_seconds / decode_seconds);
    if (d.profile && i == o.samples - 1) print_decode_profile(*text, *device, d.tokens, best);
  }
  report("decode.prompt_tokens_per_second", prompts.rates, "tokens/s", true, o.count(), json);
  report("decode.tokens_per_second", decode_rates, "tokens/s", true, o.count(), json);
  report("decode.whole_tokens_per_second", whole_rates, "tokens/s", true, o.count(), json);
  report("decode.read_bandwidth", bandwidths, "GB/s", true, o.count(), json);
  report("decode.share_of_read_bandwidth", shares, "%", true, o.count(), json);
  report("decode.prompt_share_of_best_gemm", prompts.shares, "%", true, o.count(), json);
  return 0;
}

}  // namespace megalith::apps
