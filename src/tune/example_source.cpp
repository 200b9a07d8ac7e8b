// SPDX-License-Identifier: Apache-2.0
#include "tune/example_source.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/integer.h"
#include "tune/packing.h"

namespace megalith::tune {
namespace {

/// A sequence that an encoder reads, beside the decoder's of the same number.
void append_read(std::span<const int32_t> ids, int64_t sample, data::HostTokens& encoder) {
  encoder.ids_T.insert(encoder.ids_T.end(), ids.begin(), ids.end());
  for (size_t i = 0; i < ids.size(); ++i) encoder.position_T.push_back(static_cast<int32_t>(i));
  encoder.cu_seqlens.push_back(static_cast<int32_t>(encoder.ids_T.size()));
  encoder.sequence_sample.push_back(sample);
}

}  // namespace

void require_ids(const std::vector<int32_t>& ids, const ExampleSourceOptions& options) {
  if (options.has_marks) return;
  const auto text =
      std::span(ids).subspan(std::min(ids.size(), static_cast<size_t>(options.virtual_tokens)));
  if (const auto most = std::ranges::max_element(text);
      most != text.end() && *most >= options.vocab_size) {
    throw UserError(
        "the tokenizer makes id {}, and the model has {} tokens; they do not belong together",
        *most, options.vocab_size);
  }
}

ExampleSource::ExampleSource(const std::vector<Example>& examples,
                             const ExampleSourceOptions& options)
    : options_(options), numbers_(options.numbers) {
  const bool reads = options.encoder_length > 0;
  std::vector<int64_t> lengths;
  std::vector<SideLengths> sides;
  begins_.push_back(0);
  read_begins_.push_back(0);
  for (const Example& example : examples) {
    MEGA_CHECK_EQ(example.read.empty(), !reads);
    require_ids(reads ? example.read : example.ids, options);
    if (reads) require_ids(example.ids, {.vocab_size = options.vocab_size});
    read_ids_.insert(read_ids_.end(), example.read.begin(), example.read.end());
    read_begins_.push_back(std::ssize(read_ids_));
    sides.push_back({example.tokens(), std::ssize(example.read)});
    ids_.insert(ids_.end(), example.ids.begin(), example.ids.end());
    learned_.insert(learned_.end(), example.learned.begin(), example.learned.end());
    begins_.push_back(std::ssize(ids_));
    types_.insert(types_.end(), example.types.begin(), example.types.end());
    types_.resize(ids_.size());
    labels_.insert(labels_.end(), example.labels.begin(), example.labels.end());
    if (example.target) targets_.push_back(*example.target);
    if (options.num_tasks > 0) {
      MEGA_CHECK(example.task >= 0 && example.task < options.num_tasks, "task {} of {}",
                 example.task, options.num_tasks);
      tasks_.push_back(example.task);
    }
    lengths.push_back(example.tokens());
    num_tokens_ += example.tokens();
  }
  MEGA_CHECK(targets_.empty() || targets_.size() == examples.size(), "some have targets");
  MEGA_CHECK(labels_.empty() || labels_.size() == ids_.size(), "some have labels");
  if (std::ranges::all_of(types_, [](int32_t type) { return type == 0; })) types_.clear();
  samples_ = reads ? packed_samples(sides, {options.sequence_length, options.encoder_length})
                   : packed_samples(lengths, options.sequence_length);
  for (const std::vector<int64_t>& sample : samples_) {
    int64_t learned = 0;
    for (const int64_t example : sample) {
      const auto begin = learned_.begin() + begins_[static_cast<size_t>(example)];
      const auto end = learned_.begin() + begins_[static_cast<size_t>(example) + 1];
      learned += std::count(begin + 1, end, 1);
      if (!labels_.empty()) {
        const auto first = labels_.begin() + (begin - learned_.begin());
        num_learned_ += (end - begin) - std::count(first, first + (end - begin), -1);
      }
    }
    num_learned_ += targets_.empty() ? learned : std::ssize(sample);
    most_learned_ = std::max(most_learned_, learned);
  }
}

std::string ExampleSource::fingerprint(const data::AtWork& at_work) const {
  if (at_work) at_work();
  Sha256 sha;
  sha.update(ids_.data(), ids_.size() * sizeof(ids_[0]));
  sha.update(learned_.data(), learned_.size());
  sha.update(begins_.data(), begins_.size() * sizeof(begins_[0]));
  sha.update(types_.data(), types_.size() * sizeof(int32_t));
  sha.update(labels_.data(), labels_.size() * sizeof(int32_t));
  if (!read_ids_.empty()) {
    sha.update(read_ids_.data(), read_ids_.size() * sizeof(read_ids_[0]));
    sha.update(read_begins_.data(), read_begins_.size() * sizeof(read_begins_[0]));
  }
  for (const Target& target : targets_) {
    sha.update(&target.label, sizeof target.label);
    sha.update(&target.number, sizeof target.number);
    if (options_.spans) sha.update(&target.last, sizeof target.last);
  }
  return "examples-" + sha.finish();
}

std::vector<int64_t> ExampleSource::examples_of_tasks(int64_t samples) const {
  MEGA_CHECK(!tasks_.empty() && !options_.shuffle && samples <= samples_per_epoch(), "{} samples",
             samples);
  std::vector<int64_t> counts(static_cast<size_t>(options_.num_tasks), 0);
  for (const auto& sample : std::span(samples_).first(static_cast<size_t>(samples)))
    for (const int64_t example : sample)
      ++counts[static_cast<size_t>(tasks_[static_cast<size_t>(example)])];
  return counts;
}

void ExampleSource::end_sequence(int64_t sample, std::optional<size_t> example,
                                 data::HostBatch& batch) const {
  batch.cu_seqlens.push_back(static_cast<int32_t>(batch.ids_T.size()));
  batch.sequence_sample.push_back(sample);
  if (!tasks_.empty()) batch.sequence_task.push_back(example ? tasks_[*example] : -1);
  if (targets_.empty()) return;
  const Target* const target = example ? &targets_[*example] : nullptr;
  if (numbers_) {
    batch.target_numbers.push_back(target != nullptr ? target->number : 0);
  } else {
    batch.targets_T.push_back(target != nullptr ? target->label : 0);
    if (options_.spans) batch.targets_T.push_back(target != nullptr ? target->last : 0);
  }
  batch.loss_weight_T.push_back(target != nullptr ? 1.0f : 0.0f);
  batch.total_weight += target != nullptr ? 1 : 0;
}

void ExampleSource::append_example(size_t example, data::HostBatch& batch) const {
  const auto first = static_cast<size_t>(begins_[example]);
  const bool predicted = targets_.empty() && labels_.empty();
  const auto last = static_cast<size_t>(begins_[example + 1]) - (predicted ? 1 : 0);
  for (size_t i = first; i < last; ++i) {
    batch.ids_T.push_back(ids_[i]);
    batch.position_T.push_back(static_cast<int32_t>(i - first));
    if (!types_.empty()) batch.type_T.push_back(types_[i]);
    if (!targets_.empty()) continue;
    const bool learned = predicted ? learned_[i + 1] != 0 : labels_[i] >= 0;
    batch.targets_T.push_back(predicted ? ids_[i + 1] : labels_[i]);
    batch.loss_weight_T.push_back(learned ? 1.0f : 0.0f);
    batch.total_weight += learned ? 1 : 0;
  }
}

std::span<const int64_t> ExampleSource::examples_of(int64_t n) const {
  MEGA_CHECK(!options_.shuffle, "examples of a sample whose order a seed decides");
  return samples_[static_cast<size_t>(n % samples_per_epoch())];
}

void ExampleSource::append_sample(const SampleOrder& order, int64_t n,
                                  data::HostBatch& batch) const {
  data::HostTokens& encoder = batch.encoder;
  const bool reads = encoder_length() > 0;
  const size_t end = batch.ids_T.size() + static_cast<size_t>(sequence_length());
  const size_t read_end = encoder.ids_T.size() + static_cast<size_t>(encoder_length());
  for (const int64_t number :
       samples_[static_cast<size_t>(order.index_of(n, samples_per_epoch()))]) {
    const auto example = static_cast<size_t>(number);
    append_example(example, batch);
    end_sequence(n, example, batch);
    if (reads) append_read(read_of(example), n, encoder);
  }
  if (batch.ids_T.size() == end && encoder.ids_T.size() == read_end) return;
  for (int32_t position = 0; batch.ids_T.size() < end; ++position) {
    batch.ids_T.push_back(0);
    batch.position_T.push_back(position);
    if (!types_.empty()) batch.type_T.push_back(0);
    if (!targets_.empty()) continue;
    batch.targets_T.push_back(-1);
    batch.loss_weight_T.push_back(0);
  }
  end_sequence(n, std::nullopt, batch);
  if (reads) append_read(std::vector<int32_t>(read_end - encoder.ids_T.size()), n, encoder);
}

void ExampleSource::fill(int64_t first, int64_t count, data::HostBatch& batch) const {
  fill_in_order(options_.seed, first, count, batch);
}

void ExampleSource::fill_in_order(uint64_t seed, int64_t first, int64_t count,
                                  data::HostBatch& batch) const {
  batch.begin(first, count, sequence_length());
  if (encoder_length() > 0) {
    const auto total = checked_multiply(count, encoder_length());
    MEGA_CHECK(total && *total <= std::numeric_limits<int32_t>::max(), "{} samples of {} tokens",
               count, encoder_length());
    batch.encoder.clear(first, encoder_length());
    batch.encoder.num_samples = count;
  }
  const SampleOrder order(seed, options_.shuffle);
  for (int64_t i = 0; i < count; ++i) append_sample(order, first + i, batch);
}

}  // namespace megalith::tune
