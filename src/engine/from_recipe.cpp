// SPDX-License-Identifier: Apache-2.0
#include "engine/from_recipe.h"

#include <algorithm>
#include <limits>

#include "models/recipe_model.h"
#include "objectives/masking.h"
#include "objectives/spans.h"
#include "spec/head_types.h"

namespace megalith::engine {
namespace {

DType dtype_of(config::Precision precision) {
  return precision == config::Precision::bf16  ? DType::bf16
         : precision == config::Precision::f16 ? DType::f16
                                               : DType::f32;
}
DType dtype_of(config::Compute compute) {
  return compute == config::Compute::f32   ? DType::f32
         : compute == config::Compute::f16 ? DType::f16
                                           : DType::bf16;
}

std::optional<precision::LossScaleOptions> loss_scale_of(const config::PrecisionSection& p) {
  if (p.compute != config::Compute::f16) return std::nullopt;
  precision::LossScaleOptions options;
  const std::optional<double> fixed = p.fixed_scale();
  options.dynamic = !fixed;
  options.initial = static_cast<float>(fixed.value_or(p.fp16.initial_scale));
  options.growth_interval = narrow<int32_t>(p.fp16.growth_interval);
  options.hysteresis = narrow<int32_t>(p.fp16.hysteresis);
  options.least = fixed ? options.initial : static_cast<float>(p.fp16.min_scale);
  return options;
}

std::optional<Fp8Layers> fp8_of(const config::PrecisionSection& p) {
  if (p.compute != config::Compute::fp8) return std::nullopt;
  using precision::ScalingPolicy;
  constexpr ScalingPolicy kPolicies[] = {ScalingPolicy::delayed, ScalingPolicy::current,
                                         ScalingPolicy::block, ScalingPolicy::mx,
                                         ScalingPolicy::unscaled};
  Fp8Layers fp8{{precision::ScalingOptions::of(kPolicies[static_cast<size_t>(p.fp8.recipe)]),
                 p.fp8.weight_gradients},
                p.fp8.first_layers,
                p.fp8.last_layers};
  precision::ScalingOptions& scaling = fp8.options.scaling;
  if (p.fp8.format != config::Fp8Format::by_recipe) {
    scaling.format = p.fp8.format == config::Fp8Format::e4m3 ? precision::Fp8Format::e4m3
                                                             : precision::Fp8Format::hybrid;
  }
  scaling.history = p.fp8.history;
  scaling.choice = p.fp8.amax == config::Fp8Amax::max ? kernels::AmaxChoice::max
                                                      : kernels::AmaxChoice::most_recent;
  scaling.margin = narrow<int>(p.fp8.margin);
  const config::Fp8GuardSection& g = p.fp8.guard;
  fp8.guard = {g.every,    g.warn,      g.trip,
               g.cosine,   g.saturated, g.flushed,
               g.patience, g.quiet,     g.fallback == config::Fp8Fallback::all};
  return fp8;
}

optim::AdamWOptions adamw_of(const config::OptimizerSection& o) {
  optim::AdamWOptions options{o.beta1, o.beta2, o.eps, o.weight_decay, {}};
  for (const config::ParameterGroup& group : o.groups) {
    options.groups.push_back({group.match, group.lr_scale, group.weight_decay});
  }
  return options;
}

/// Layer l of L has decay^(L - l), what lies below them decay^(L + 1), what lies behind them 1 (Bao
/// et al. 2021; Clark et al. 2020 have one power more below the head). Powers are products from the
/// last layer down: the same bits everywhere.
std::vector<optim::DepthScale> depth_scales(double decay, const models::ModelSpec& model) {
  if (decay == 1) return {};
  if (model.shares_weights() || model.is_encoder_decoder()) {
    throw UserError(
        "recipe: optimizer.layer_decay needs one stack of layers, each with weights of its own, "
        "which model.family {} is not; set 1",
        model.family);
  }
  std::vector<optim::DepthScale> scales;
  double scale = 1;
  for (int64_t layer = model.num_layers(); layer-- > 0;) {
    scale *= decay;
    scales.push_back({model.layer_name(layer) + ".", scale});
  }
  scale *= decay;
  for (const char* const table : {"embedding.", "position.", "token_type."})
    scales.push_back({table, scale});
  return scales;
}

/// A layer that is not causal sees the next token, a causal one nothing behind a hidden token.
void check_objective(config::Objective objective, const models::ModelSpec& model) {
  using config::Objective;
  const bool encodes = std::ranges::none_of(
      model.layers, [](const layers::LayerSpec& layer) { return layer.attention.causal; });
  const auto refuse = [&](std::string_view why, std::string_view instead) {
    throw UserError("recipe: train.objective {} {} model.family {}; set train.objective: {}",
                    settings::name_of(objective), why, model.family, instead);
  };
  if (model.is_encoder_decoder()) {
    if (objective != Objective::spans)
      refuse("is of models with one stack of layers, there is an encoder and a decoder in",
             "spans");
  } else if (objective == Objective::spans) {
    refuse("needs a model with an encoder and a decoder, there is one stack of layers in",
           "causal or masked");
  } else if (objective == Objective::causal && !model.is_causal()) {
    refuse("asks for the next token, which others see in layers of", "masked");
  } else if (objective == Objective::masked && !encodes) {
    refuse("asks for tokens between others, and none behind them are seen by layers of",
           "causal, or another model.family");
  }
}

}  // namespace

Settings settings_of(const config::Recipe& r, int64_t vocab) {
  return settings_of(r, models::model_of(r, vocab));
}

Settings settings_of(const config::Recipe& r, const models::ModelSpec& model,
                     const std::function<void(Settings&)>& add) {
  Settings s;
  s.model = model;
  s.model.dropout = r.model.dropout;
  if (layers::head_type(s.model.head.kind).has_logits && !r.tunes())
    check_objective(r.train.objective, s.model);
  s.layout.tensor = narrow<int>(r.parallel.tensor);
  s.layout.pipeline = narrow<int>(r.parallel.pipeline);
  s.layout.data = narrow<int>(r.parallel.data);
  s.layout.sequence = r.parallel.sequence;
  s.layout.chunks = narrow<int>(r.parallel.chunks);
  s.zero = narrow<int>(r.parallel.zero);
  s.split.tensor_shards = r.parallel.tensor_shards > 0 ? narrow<int>(r.parallel.tensor_shards)
                                                       : models::default_tensor_shards(s.model);
  s.split.data_shards = narrow<int>(r.parallel.data_shards);
  s.pipeline_schedule = r.parallel.schedule;
  s.numerics =
      r.numerics == config::Numerics::fast ? kernels::Numerics::fast : kernels::Numerics::exact;
  s.recompute = {r.memory.recompute, r.memory.recompute_layers};
  s.weights = dtype_of(r.precision.parameters);
  s.activations = dtype_of(r.precision.compute);
  s.loss_scale = loss_scale_of(r.precision);
  s.fp8 = fp8_of(r.precision);
  s.seed = static_cast<uint64_t>(r.run.seed);
  s.micro_batch = r.train.micro_batch;
  s.trained_length = r.train.sequence_length;
  s.ragged = r.data.document_mask || r.data.sequences == config::Sequences::documents ||
             r.train.sentence_pairs != config::SentencePairs::none || r.tunes();
  if (r.train.objective == config::Objective::masked)
    s.predicted_per_sample = objectives::most_predicted(r.train.masking.rate, s.sequence_length());
  if (r.train.objective == config::Objective::spans) {
    s.decoder_length = objectives::span_counts({r.train.spans.rate, r.train.spans.mean_length},
                                               s.sequence_length())
                           .decoder_length();
    if (s.decoder_length > s.model.context) {
      throw UserError(
          "recipe: train.spans makes {} tokens for the decoder, more than model.context {}",
          s.decoder_length, s.model.context);
    }
  }
  if (r.tunes() && s.model.is_encoder_decoder())
    s.decoder_length = r.tune.answer_length > 0 ? r.tune.answer_length : s.sequence_length();
  s.batch = {r.train.global_batch, r.train.ramp_start, r.train.ramp_increment,
             r.train.ramp_samples};
  s.schedule.kind = r.optimizer.schedule;
  s.schedule.peak = r.optimizer.lr;
  s.schedule.floor = r.optimizer.min_lr;
  s.schedule.warmup_steps = r.optimizer.warmup_steps;
  if (r.compares()) s.preferences = layers::PreferenceLoss{r.tune.beta, r.tune.label_smoothing};
  s.adamw = adamw_of(r.optimizer);
  s.adamw.depths = depth_scales(r.optimizer.layer_decay, s.model);
  s.frozen = r.optimizer.frozen;
  s.clip = r.optimizer.clip > 0 ? r.optimizer.clip : std::numeric_limits<double>::infinity();
  s.z_loss = r.train.z_loss;
  if (add) add(s);
  check(s, "recipe");
  return s;
}

}  // namespace megalith::engine
