// SPDX-License-Identifier: Apache-2.0
#include "engine/device_batch.h"

#include <algorithm>

#include "base/check.h"
#include "base/integer.h"

namespace megalith::engine {

namespace {

/// Of `count` units, those that a batch lacks with zeros.
template <typename T>
std::vector<T> filled_up(const std::vector<T>& values, int64_t count) {
  std::vector<T> all = values;
  all.resize(static_cast<size_t>(count), T{});
  return all;
}

/// Of each token; of answers that are compared those that are learned will weigh something.
std::vector<float> token_weights(const data::HostBatch& host) {
  if (host.compared_rows.empty()) return host.loss_weight_T;
  std::vector<float> weights;
  for (const int32_t target : host.targets_T) weights.push_back(target >= 0 ? 1.0f : 0.0f);
  return weights;
}

}  // namespace

DeviceBatch::DeviceBatch(device::Device& device, const data::HostBatch& host, const Sizes& sizes,
                         double global_weight, const TokenPart& part)
    : arrays_(device) {
  place_tokens(host, sizes, part, cu_seqlens_, batch_);
  place_losses(host, sizes);
  if (sizes.predicted_per_sample > 0) place_predicted(host, sizes.predicted_per_sample);
  if (sizes.losses.pairs) place_pairs(host, sizes.pairs);
  batch_.loss_scale = static_cast<float>(1.0 / global_weight);
  if (host.encoder.num_tokens() == 0) return;
  MEGA_CHECK_EQ(host.encoder.num_sequences(), host.num_sequences());
  place_tokens(host.encoder, sizes, part, encoder_cu_seqlens_, encoder_);
  batch_.encoder = &encoder_;
}

void DeviceBatch::place_tokens(const data::HostTokens& host, const Sizes& sizes,
                               const TokenPart& part, std::vector<int32_t>& cu_seqlens,
                               layers::Batch& batch) {
  const int64_t tokens = host.num_tokens(), sequences = host.num_sequences(),
                length = host.sequence_length, max_sequences = sizes.max_sequences;
  MEGA_CHECK_LE(sequences, max_sequences);
  cu_seqlens = host.cu_seqlens;
  std::vector<int64_t> sample_position_S(static_cast<size_t>(sequences));
  for (size_t s = 0; s < sample_position_S.size(); ++s)
    sample_position_S[s] = cu_seqlens[s] % length;

  batch.num_tokens = tokens;
  batch.num_samples = host.num_samples;
  batch.ids_T = arrays_.place<int32_t>(host.ids_T);
  batch.position_T = arrays_.place<int32_t>(host.position_T);
  place_own_tokens(host, part, batch);
  if (sizes.token_types) place_types(host, part, batch);
  batch.cu_seqlens = cu_seqlens;
  batch.cu_seqlens_device = arrays_.place<int32_t>(cu_seqlens, max_sequences + 1);
  batch.sample_S = arrays_.place<int64_t>(host.sequence_sample, max_sequences);
  batch.sample_position_S = arrays_.place<int64_t>(sample_position_S, max_sequences);
}

void DeviceBatch::place_losses(const data::HostBatch& host, const Sizes& sizes) {
  const layers::LossShape& losses = sizes.losses;
  const int64_t units = losses.values(host.num_tokens(), sizes.max_sequences);
  if (losses.unit == layers::LossUnit::pair) return place_compared(host, losses, units);
  MEGA_CHECK_EQ(std::ssize(host.loss_weight_T),
                losses.values(host.num_tokens(), host.num_sequences()));
  if (losses.targets == DType::f32) {
    const int64_t each = losses.numbers_per_unit;
    MEGA_CHECK_EQ(std::ssize(host.target_numbers), std::ssize(host.loss_weight_T) * each);
    batch_.targets_T = arrays_.place<float>(filled_up(host.target_numbers, units * each))
                           .reshape(Shape{units, each});
  } else {
    const int64_t each = losses.numbers_per_unit;
    MEGA_CHECK_EQ(std::ssize(host.targets_T), std::ssize(host.loss_weight_T) * each);
    batch_.targets_T = arrays_.place<int32_t>(filled_up(host.targets_T, units * each));
    if (each > 1) batch_.targets_T = batch_.targets_T.reshape(Shape{units, each});
  }
  batch_.loss_weight_T = arrays_.place<float>(filled_up(host.loss_weight_T, units));
}

void DeviceBatch::place_compared(const data::HostBatch& host, const layers::LossShape& losses,
                                 int64_t units) {
  const int64_t pairs = host.num_compared(), numbers = losses.numbers_per_unit;
  MEGA_CHECK_LE(pairs, units);
  MEGA_CHECK_EQ(std::ssize(host.loss_weight_T), pairs);
  MEGA_CHECK_EQ(std::ssize(host.target_numbers), numbers * pairs);
  MEGA_CHECK_EQ(host.targets_T.size(), host.ids_T.size());
  batch_.targets_T = arrays_.place<int32_t>(host.targets_T);
  batch_.loss_weight_T = arrays_.place<float>(filled_up(host.loss_weight_T, units));
  batch_.compared = {
      arrays_.place<int32_t>(filled_up(host.compared_rows, 3 * units)).reshape(Shape{units, 3}),
      arrays_.place<float>(filled_up(host.target_numbers, numbers * units))
          .reshape(Shape{units, numbers}),
      losses.preferences.beta, losses.preferences.label_smoothing};
}

/// Those that weigh something, and as many of the first others as a sample has fewer.
void DeviceBatch::place_predicted(const data::HostBatch& host, int64_t per_sample) {
  const int64_t length = host.sequence_length;
  const std::vector<float> weight_T = token_weights(host);
  std::vector<int32_t> rows, targets, places(host.ids_T.size(), -1);
  std::vector<float> weights;
  predicted_runs_ = {0};
  for (int64_t sample = 0; sample < host.num_samples; ++sample) {
    const auto begin = weight_T.begin() + sample * length;
    int64_t spare = per_sample - (length - std::count(begin, begin + length, 0.0f));
    MEGA_CHECK(spare >= 0, "sample {} predicts {} tokens more than {}", host.first_sample + sample,
               -spare, per_sample);
    for (int64_t t = sample * length; t < (sample + 1) * length; ++t) {
      const auto at = static_cast<size_t>(t);
      if (weight_T[at] == 0 && spare-- <= 0) continue;
      places[at] = static_cast<int32_t>(rows.size());
      rows.push_back(static_cast<int32_t>(t));
      targets.push_back(host.targets_T[at]);
      weights.push_back(weight_T[at]);
    }
    predicted_runs_.push_back(static_cast<int32_t>(rows.size()));
  }
  batch_.predicted = {arrays_.place<int32_t>(rows), arrays_.place<int32_t>(places),
                      arrays_.place<int32_t>(targets), arrays_.place<float>(weights),
                      predicted_runs_};
}

void DeviceBatch::place_pairs(const data::HostBatch& host, double global_weight) {
  MEGA_CHECK_EQ(std::ssize(host.pair_targets), host.num_samples);
  std::vector<int32_t> cu_samples;
  for (int64_t sample = 0; sample <= host.num_samples; ++sample)
    cu_samples.push_back(static_cast<int32_t>(sample * host.sequence_length));
  const std::vector<float> weights(host.pair_targets.size(), 1.0f);
  batch_.pairs = {arrays_.place<int32_t>(host.pair_targets), arrays_.place<float>(weights),
                  arrays_.place<int32_t>(cu_samples), static_cast<float>(1 / global_weight)};
}

void DeviceBatch::place_types(const data::HostTokens& host, const TokenPart& part,
                              layers::Batch& batch) {
  std::vector<int32_t> types = host.type_T;
  types.resize(host.ids_T.size());
  batch.type_T = batch.own.type_T = arrays_.place<int32_t>(types);
  if (part.count == 1) return;
  const int64_t length = host.sequence_length, each = batch.own.per_sample;
  std::vector<int32_t> own;
  for (int64_t sample = 0; sample < host.num_samples; ++sample) {
    const auto begin = types.begin() + sample * length + part.index * each;
    own.insert(own.end(), begin, begin + each);
  }
  batch.own.type_T = arrays_.place<int32_t>(own);
}

void DeviceBatch::place_own_tokens(const data::HostTokens& host, const TokenPart& part,
                                   layers::Batch& batch) {
  const int64_t length = host.sequence_length;
  const int64_t each = exact_div(length, static_cast<int64_t>(part.count));
  std::vector<int32_t> ids, position, sample_position;
  std::vector<int64_t> sample_of;
  for (int64_t sample = 0; sample < host.num_samples; ++sample) {
    for (int64_t at = part.index * each; at < (part.index + 1) * each; ++at) {
      const auto token = static_cast<size_t>(sample * length + at);
      ids.push_back(host.ids_T[token]);
      position.push_back(host.position_T[token]);
      sample_of.push_back(host.first_sample + sample);
      sample_position.push_back(static_cast<int32_t>(at));
    }
  }
  layers::OwnTokens& own = batch.own;
  own.count = std::ssize(position);
  own.per_sample = each;
  own.ids_T = part.count == 1 ? batch.ids_T : arrays_.place<int32_t>(ids);
  own.position_T = part.count == 1 ? batch.position_T : arrays_.place<int32_t>(position);
  own.sample_T = arrays_.place<int64_t>(sample_of);
  own.sample_position_T = arrays_.place<int32_t>(sample_position);
}

}  // namespace megalith::engine
