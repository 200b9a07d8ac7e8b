// SPDX-License-Identifier: Apache-2.0
#include "preferences/preference_source.h"

#include <algorithm>

#include "base/check.h"
#include "base/file.h"
#include "tune/packing.h"

namespace megalith::tune {
namespace {

int64_t learned_of(const Example& answer) {
  return std::count(answer.learned.begin() + 1, answer.learned.end(), 1);
}

void end_answer(int64_t sample, data::HostBatch& batch) {
  batch.cu_seqlens.push_back(static_cast<int32_t>(batch.ids_T.size()));
  batch.sequence_sample.push_back(sample);
}

void append_answer(const Example& answer, int64_t sample, data::HostBatch& batch) {
  batch.compared_rows.push_back(static_cast<int32_t>(batch.ids_T.size()));
  for (size_t i = 0; i + 1 < answer.ids.size(); ++i) {
    batch.ids_T.push_back(answer.ids[i]);
    batch.position_T.push_back(static_cast<int32_t>(i));
    batch.targets_T.push_back(answer.learned[i + 1] != 0 ? answer.ids[i + 1] : -1);
  }
  end_answer(sample, batch);
}

}  // namespace

void ReferenceTable::set(std::vector<float> values) {
  const std::lock_guard lock(setting_);
  if (values_.empty()) {
    values_ = std::move(values);
  } else {
    MEGA_CHECK(values_ == values, "ranks have other log-probabilities of a reference");
  }
}

PreferenceSource::PreferenceSource(std::vector<Preference> pairs,
                                   const ExampleSourceOptions& options)
    : options_(options),
      order_(options.seed, options.shuffle),
      pairs_(std::make_shared<const std::vector<Preference>>(std::move(pairs))) {
  std::vector<int64_t> lengths;
  for (const Preference& pair : *pairs_) {
    for (const Example* answer : {&pair.chosen, &pair.rejected}) {
      require_ids(answer->ids, options);
      num_learned_ += learned_of(*answer);
    }
    lengths.push_back(pair.tokens());
    num_tokens_ += pair.tokens();
  }
  samples_ = packed_samples(lengths, options.sequence_length);
  for (const std::vector<int64_t>& sample : samples_) {
    int64_t learned = 0;
    for (const int64_t number : sample) {
      const Preference& pair = (*pairs_)[static_cast<size_t>(number)];
      learned += learned_of(pair.chosen) + learned_of(pair.rejected);
    }
    most_learned_ = std::max(most_learned_, learned);
  }
}

PreferenceSource::PreferenceSource(const PreferenceSource& of, uint64_t seed)
    : options_(of.options_),
      order_(seed, of.options_.shuffle),
      pairs_(of.pairs_),
      samples_(of.samples_),
      num_tokens_(of.num_tokens_),
      num_learned_(of.num_learned_),
      most_learned_(of.most_learned_) {}

std::string PreferenceSource::fingerprint(const data::AtWork& at_work) const {
  if (at_work) at_work();
  Sha256 sha;
  for (const Preference& pair : *pairs_) {
    for (const Example* answer : {&pair.chosen, &pair.rejected}) {
      const auto size = static_cast<int64_t>(answer->ids.size());
      sha.update(&size, sizeof size);
      sha.update(answer->ids.data(), answer->ids.size() * sizeof(int32_t));
      sha.update(answer->learned.data(), answer->learned.size());
    }
  }
  return "preferences-" + sha.finish();
}

void PreferenceSource::append_sample(int64_t n, data::HostBatch& batch) const {
  const size_t end = batch.ids_T.size() + static_cast<size_t>(sequence_length());
  const std::vector<float>& reference = reference_->values();
  for (const int64_t number : pairs_of(n)) {
    const auto at = static_cast<size_t>(number);
    append_answer((*pairs_)[at].chosen, n, batch);
    append_answer((*pairs_)[at].rejected, n, batch);
    batch.compared_rows.push_back(static_cast<int32_t>(batch.ids_T.size()));
    for (const size_t answer : {2 * at, 2 * at + 1})
      batch.target_numbers.push_back(reference.empty() ? 0 : reference[answer]);
    batch.loss_weight_T.push_back(1);
    batch.total_weight += 1;
  }
  if (batch.ids_T.size() == end) return;
  for (int32_t position = 0; batch.ids_T.size() < end; ++position) {
    batch.ids_T.push_back(0);
    batch.position_T.push_back(position);
    batch.targets_T.push_back(-1);
  }
  end_answer(n, batch);
}

void PreferenceSource::fill(int64_t first, int64_t count, data::HostBatch& batch) const {
  batch.begin(first, count, sequence_length());
  for (int64_t i = 0; i < count; ++i) append_sample(first + i, batch);
}

}  // namespace megalith::tune
