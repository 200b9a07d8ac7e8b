// SPDX-License-Identifier: Apache-2.0
#include "testing/toy_model.h"

#include <algorithm>

#include "heads/head.h"
#include "math/random.h"

namespace megalith::testing {

engine::Settings toy_settings() {
  engine::Settings settings;
  settings.model =
      models::gpt2({.layers = 3, .hidden = 32, .heads = 4, .ffn = 64, .context = 16, .vocab = 100});
  settings.model.dropout = 0.1;
  settings.model.init_std = 0.1;
  settings.split = {4, 2};
  settings.batch.full = 8;
  settings.micro_batch = 2;
  settings.schedule.total_steps = 5;
  settings.schedule.peak = 1e-2;
  settings.clip = 0.5;
  settings.z_loss = 1e-3;
  settings.bucket_elements = 4096;  // several buckets of gradients, some within a parameter
  return settings;
}

engine::Settings toy_llama_settings() {
  engine::Settings settings = toy_settings();
  const models::ModelSpec gpt = settings.model;
  settings.model = models::llama({.layers = 3,
                                  .hidden = 32,
                                  .heads = 8,
                                  .kv_heads = 4,
                                  .head_dim = 6,
                                  .ffn = 20,
                                  .context = 16,
                                  .vocab = 100});
  settings.model.dropout = gpt.dropout;
  settings.model.init_std = gpt.init_std;
  layers::RopeSpec& rope = settings.model.layers[0].attention.rope;
  rope.scaling = layers::RopeScaling::dynamic;
  rope.factor = 2;
  rope.original_context = 5;
  settings.model.layers[1].attention.window = 5;
  settings.model.layers[2].attention.softcap = 3;
  settings.model.layers[2].attention.qk_norm = layers::QkNorm::head;
  return settings;
}

engine::Settings toy_relative_settings() {
  engine::Settings settings = toy_settings();
  settings.model.embedding.position = layers::PositionKind::none;
  settings.model.for_each_layer([](layers::LayerSpec& layer) {
    layer.attention.relative = layers::RelativeSpec{.buckets = 8, .max_distance = 9};
    layer.attention.scale = 1;
  });
  return settings;
}

engine::Settings toy_encoder_decoder_settings() {
  engine::Settings settings = toy_settings();
  models::ModelSpec& model = settings.model;
  model.set_num_layers(5);
  model.encoder_layers = 2;
  model.embedding.position = layers::PositionKind::none;
  for (int64_t i = 0; i < model.num_layers(); ++i) {
    layers::LayerSpec& layer = model.layers[static_cast<size_t>(i)];
    layer.attention.rope.dim = layer.attention.head_dim;
    layer.attention.causal = !model.is_encoder_layer(i);
    if (model.is_encoder_layer(i)) continue;
    layer.cross = layer.attention;
    layer.cross->rope = {};
    layer.cross->causal = false;
  }
  settings.decoder_length = 8;
  return settings;
}

models::ModelSpec toy_family_model(const models::Family& family, const models::Sizes& sizes) {
  constexpr int64_t kWhole = 7;
  models::Sizes whole = sizes;
  whole.layers = kWhole;
  models::ModelSpec model = family.make(whole, "toy");
  if (model.is_encoder_decoder()) {
    whole.layers = sizes.layers - 1;
    whole.decoder_layers = sizes.layers;
    model = family.make(whole, "toy");
  } else {
    model.layers.erase(model.layers.begin(), model.layers.begin() + (kWhole - sizes.layers));
  }
  model.dropout = 0.1;
  model.init_std = 0.1;
  model.for_each_layer([&](layers::LayerSpec& layer) {
    layers::AttentionSpec& a = layer.attention;
    if (a.window > 0) a.window = 5;
    if (a.softcap > 0) a.softcap = 3;
    if (a.relative) a.relative = layers::RelativeSpec{.buckets = 8, .max_distance = 6};
    if (&family != &models::kPhi3) return;
    a.rope.scaling = layers::RopeScaling::longrope;
    a.rope.factor = 2;
    a.rope.original_context = 5;
    for (int64_t pair = 0; pair < a.rope.dim / 2; ++pair) {
      a.rope.short_factors.push_back(1 + 0.25 * static_cast<double>(pair));
      a.rope.long_factors.push_back(1 + static_cast<double>(pair));
    }
  });
  if (model.head.softcap > 0) model.head.softcap = 5;
  return model;
}

engine::Settings toy_family_settings(const models::Family& family) {
  engine::Settings settings = toy_settings();
  settings.model = toy_family_model(family, {.layers = 3,
                                             .hidden = 32,
                                             .heads = 8,
                                             .kv_heads = 4,
                                             .head_dim = 8,
                                             .ffn = 20,
                                             .context = 16,
                                             .vocab = 100});
  if (settings.model.is_encoder_decoder()) settings.decoder_length = 8;
  return settings;
}

void set_kv_heads(models::ModelSpec& model, int64_t kv_heads) {
  model.for_each_layer([&](layers::LayerSpec& layer) { layer.attention.kv_heads = kv_heads; });
}
void set_ffn(models::ModelSpec& model, int64_t ffn) {
  model.for_each_layer([&](layers::LayerSpec& layer) { layer.mlp.ffn = ffn; });
}
void set_materialised(models::ModelSpec& model, bool materialised) {
  model.for_each_layer([&](layers::LayerSpec& layer) { layer.set_materialised(materialised); });
}

namespace {

/// One sample's tokens.
std::vector<int32_t> sample_tokens(const engine::Settings& settings, int64_t sample,
                                   int64_t count) {
  const auto vocab = static_cast<uint64_t>(settings.model.vocab);
  const auto draws = random_key(77, static_cast<uint64_t>(sample));
  uint64_t token = random_key(draws, uint64_t{1}) % vocab;
  std::vector<int32_t> tokens;
  for (int64_t t = 0; t < count; ++t) {
    tokens.push_back(static_cast<int32_t>(token));
    token = (7 * token + 3 + random_key(draws, static_cast<uint64_t>(t + 2)) % 3) % vocab;
  }
  return tokens;
}

/// Where the second document of a sample of `length` tokens begins; `length`: there is one. Two
/// documents in two of three samples; where the second begins moves through the sample.
int64_t second_document(const engine::Settings& settings, int64_t sample, int64_t length) {
  return settings.ragged && sample % 3 != 0 ? 1 + sample * 5 % (length - 1) : length;
}

/// As many tokens as a sample has.
void append_tokens(std::span<const int32_t> ids, int64_t sample, int64_t second,
                   data::HostTokens& tokens) {
  const int64_t length = tokens.sequence_length;
  tokens.ids_T.insert(tokens.ids_T.end(), ids.begin(), ids.begin() + length);
  for (int64_t t = 0; t < length; ++t)
    tokens.position_T.push_back(static_cast<int32_t>(t < second ? t : t - second));
  const int32_t begin = tokens.cu_seqlens.back();
  if (second < length) {
    tokens.cu_seqlens.push_back(static_cast<int32_t>(begin + second));
    tokens.sequence_sample.push_back(sample);
  }
  tokens.cu_seqlens.push_back(static_cast<int32_t>(begin + length));
  tokens.sequence_sample.push_back(sample);
}

/// An encoder reads the first of the sample's tokens, the decoder the next ones.
void append_sample(const engine::Settings& settings, int64_t sample, data::HostBatch& batch) {
  const int64_t length = settings.loss_length();
  const int64_t read = settings.model.is_encoder_decoder() ? settings.sequence_length() : 0;
  const std::vector<int32_t> all = sample_tokens(settings, sample, read + length + 1);
  const auto tokens = std::span(all).subspan(static_cast<size_t>(read));
  const int64_t second = second_document(settings, sample, length);
  append_tokens(tokens, sample, second, batch);
  if (read > 0) append_tokens(all, sample, second_document(settings, sample, read), batch.encoder);
  for (int64_t t = 0; t < length; ++t) {
    batch.targets_T.push_back(tokens[static_cast<size_t>(t + 1)]);
    const bool last = settings.ragged && (t == second - 1 || t == length - 1);
    batch.loss_weight_T.push_back(last ? 0.0f : 1.0f);
    batch.total_weight += static_cast<double>(batch.loss_weight_T.back());
  }
}

/// Sequences begin with virtual tokens, which nothing predicts; those that an encoder reads do.
void set_virtual_tokens(const engine::Settings& settings, data::HostBatch& batch) {
  const bool reads = settings.model.is_encoder_decoder();
  data::HostTokens& tokens = reads ? batch.encoder : static_cast<data::HostTokens&>(batch);
  batch.total_weight = 0;
  for (size_t s = 0; s < tokens.sequence_sample.size(); ++s) {
    const int32_t begin = tokens.cu_seqlens[s], length = tokens.cu_seqlens[s + 1] - begin;
    const auto count = std::min(static_cast<int32_t>(settings.virtual_tokens.count), length);
    for (int32_t k = 0; k < count; ++k) {
      const auto at = static_cast<size_t>(begin + k);
      tokens.ids_T[at] = static_cast<int32_t>(settings.model.vocab) + k;
      if (k > 0 && !reads) batch.loss_weight_T[at - 1] = 0;
    }
  }
  for (const float weight : batch.loss_weight_T) batch.total_weight += static_cast<double>(weight);
}

/// A target and a weight (0, 1 or 2) for each sequence instead, which its last token tells.
void set_sequence_targets(const engine::Settings& settings, data::HostBatch& batch) {
  const layers::HeadSpec& head = settings.model.head;
  const bool numbers = layers::loss_shape(head).targets == DType::f32;
  const bool spans = head.kind == layers::HeadKind::question_answering;
  const int64_t vocab = settings.model.vocab;
  batch.targets_T.clear();
  batch.loss_weight_T.clear();
  batch.total_weight = 0;
  for (size_t s = 0; s < batch.sequence_sample.size(); ++s) {
    const int64_t token = batch.ids_T[static_cast<size_t>(batch.cu_seqlens[s + 1] - 1)];
    for (int64_t o = 1; numbers && o <= head.outputs; ++o) {
      batch.target_numbers.push_back(static_cast<float>(o * token % vocab) /
                                     static_cast<float>(vocab));
    }
    const int32_t length = batch.cu_seqlens[s + 1] - batch.cu_seqlens[s];
    for (int64_t o = 1; spans && o <= head.outputs; ++o)
      batch.targets_T.push_back(static_cast<int32_t>(o * token % length));
    if (!numbers && !spans)
      batch.targets_T.push_back(static_cast<int32_t>(token * head.outputs / vocab));
    batch.loss_weight_T.push_back(token % 7 == 0 ? 0.0f : static_cast<float>(1 + token % 2));
    batch.total_weight += static_cast<double>(batch.loss_weight_T.back());
  }
}

/// A class and a weight (0, 1 or 2) for each token instead, which it and the one before it tell.
void set_token_targets(const engine::Settings& settings, data::HostBatch& batch) {
  const auto classes = static_cast<int32_t>(settings.model.head.outputs);
  batch.total_weight = 0;
  for (size_t t = 0; t < batch.ids_T.size(); ++t) {
    const int32_t token = batch.ids_T[t];
    batch.targets_T[t] = (token + (batch.position_T[t] > 0 ? batch.ids_T[t - 1] : 0)) % classes;
    batch.loss_weight_T[t] = token % 3 == 0 ? 0.0f : static_cast<float>(1 + token % 2);
    batch.total_weight += static_cast<double>(batch.loss_weight_T[t]);
  }
}

/// The next sequence of sample `sample`, up to `end`: what its first token predicts is not learned.
void end_sequence(int64_t sample, int64_t end, data::HostBatch& batch) {
  const int64_t begin = batch.cu_seqlens.back();
  for (int64_t t = begin; t < end; ++t)
    batch.position_T[static_cast<size_t>(t)] = static_cast<int32_t>(t - begin);
  batch.targets_T[static_cast<size_t>(begin)] = -1;
  batch.cu_seqlens.push_back(static_cast<int32_t>(end));
  batch.sequence_sample.push_back(sample);
}

/// Pair k of a sample; false where it has no room.
bool append_pair(int64_t sample, int64_t k, int64_t room_end, data::HostBatch& batch) {
  const int64_t begin = batch.cu_seqlens.back();
  const int64_t middle = begin + 2 + (sample + k) % 2, end = middle + 2 + (sample + k) % 3;
  if (end > room_end) return false;
  for (const int64_t row : {begin, middle, end})
    batch.compared_rows.push_back(static_cast<int32_t>(row));
  end_sequence(sample, middle, batch);
  end_sequence(sample, end, batch);
  for (int64_t answer = 0; answer < 2; ++answer)
    batch.target_numbers.push_back(-0.25f *
                                   static_cast<float>((7 * sample + 5 * k + 3 * answer) % 40));
  batch.loss_weight_T.push_back((sample + k) % 5 == 0 ? 2.0f : 1.0f);
  batch.total_weight += static_cast<double>(batch.loss_weight_T.back());
  return true;
}

/// What is left of a sample is a sequence that nobody learns.
void set_compared(data::HostBatch& batch) {
  const int64_t length = batch.sequence_length;
  batch.cu_seqlens.assign(1, 0);
  batch.sequence_sample.clear();
  batch.loss_weight_T.clear();
  batch.total_weight = 0;
  for (int64_t i = 0; i < batch.num_samples; ++i) {
    const int64_t sample = batch.first_sample + i, end = (i + 1) * length;
    for (int64_t k = 0; k < 3 && append_pair(sample, k, end, batch); ++k) {
    }
    const int64_t rest = batch.cu_seqlens.back();
    if (rest == end) continue;
    std::fill(batch.targets_T.begin() + rest, batch.targets_T.begin() + end, -1);
    end_sequence(sample, end, batch);
  }
}

}  // namespace

engine::Settings in_fp8(engine::Settings settings, precision::ScalingPolicy policy) {
  settings.weights = settings.activations = DType::bf16;
  settings.fp8.emplace();
  settings.fp8->options.scaling = precision::ScalingOptions::of(policy);
  settings.fp8->options.scaling.history = 3;
  return settings;
}

engine::Settings in_f16(engine::Settings settings) {
  settings.weights = settings.activations = DType::f16;
  settings.loss_scale = {.initial = 0x1p22f, .growth_interval = 2};
  return settings;
}

engine::Settings toy_sequence_settings(layers::HeadKind kind) {
  engine::Settings settings = toy_settings();
  const bool classes = kind != layers::HeadKind::sequence_regression;
  settings.model.head = {.kind = kind,
                         .tied = false,
                         .pooling = classes ? layers::Pooling::last : layers::Pooling::mean,
                         .dense = classes ? layers::HeadDense::tanh : layers::HeadDense::none,
                         .outputs = classes ? 3 : 2};
  if (kind == layers::HeadKind::question_answering) settings.model.head.outputs = 2;
  return settings;
}

data::HostBatch toy_batch(const engine::Settings& settings, int64_t first, int64_t count) {
  data::HostBatch batch;
  const auto begin = [&](int64_t length, data::HostTokens& tokens) {
    tokens.first_sample = first;
    tokens.num_samples = count;
    tokens.sequence_length = length;
    tokens.cu_seqlens.push_back(0);
  };
  begin(settings.loss_length(), batch);
  if (settings.model.is_encoder_decoder()) begin(settings.sequence_length(), batch.encoder);
  for (int64_t sample = first; sample < first + count; ++sample)
    append_sample(settings, sample, batch);
  if (settings.virtual_tokens.count > 0) set_virtual_tokens(settings, batch);
  if (layers::loss_shape(settings.model.head).pairs)
    for (int64_t sample = first; sample < first + count; ++sample)
      batch.pair_targets.push_back(static_cast<int32_t>(sample * 5 % 3 % 2));
  if (layers::loss_shape(settings.model.head).unit == layers::LossUnit::sequence)
    set_sequence_targets(settings, batch);
  if (settings.model.head.kind == layers::HeadKind::token_classification)
    set_token_targets(settings, batch);
  if (settings.preferences) set_compared(batch);
  return batch;
}

std::vector<data::HostBatch> toy_micro_batches(const engine::Settings& settings, int64_t step,
                                               int data_rank) {
  const int64_t begin = optim::samples_after(settings.batch, step - 1);
  const int64_t per_rank = optim::batch_size(settings.batch, begin) / settings.layout.data;
  const int64_t first = begin + data_rank * per_rank;
  std::vector<data::HostBatch> batches;
  for (int64_t done = 0; done < per_rank; done += settings.micro_batch) {
    batches.push_back(toy_batch(settings, first + done, settings.micro_batch));
  }
  return batches;
}

double toy_weight(const engine::Settings& settings, int64_t step) {
  const int64_t begin = optim::samples_after(settings.batch, step - 1);
  return toy_batch(settings, begin, optim::batch_size(settings.batch, begin)).total_weight;
}

}  // namespace megalith::testing
