// SPDX-License-Identifier: Apache-2.0
#include "objectives/pair_source.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/integer.h"
#include "objectives/draws.h"

namespace megalith::objectives {
namespace {

/// [CLS], [SEP] and [SEP].
constexpr int64_t kSpecialTokens = 3;

class RowWriter {
 public:
  RowWriter(const data::IndexedDataset& dataset, int64_t vocab_size, int64_t sample,
            data::HostBatch& batch)
      : dataset_(dataset), vocab_size_(vocab_size), sample_(sample), batch_(batch) {}

  void put(int32_t id, int32_t type) {
    batch_.ids_T.push_back(id);
    batch_.type_T.push_back(type);
    batch_.position_T.push_back(position_++);
  }
  void put(Range tokens, int32_t type) {
    read_.resize(static_cast<size_t>(tokens.size()));
    dataset_.read(tokens.begin, read_, vocab_size_);
    for (const int32_t id : read_) put(id, type);
  }
  void end_sequence() {
    batch_.cu_seqlens.push_back(static_cast<int32_t>(batch_.ids_T.size()));
    batch_.sequence_sample.push_back(sample_);
    position_ = 0;
  }

 private:
  const data::IndexedDataset& dataset_;
  int64_t vocab_size_, sample_;
  data::HostBatch& batch_;
  int32_t position_ = 0;
  std::vector<int32_t> read_;
};

}  // namespace

PairTokens pair_tokens(const text::Tokenizer& tokenizer) {
  const auto id_of_name = [&](const char* name) {
    const auto id = tokenizer.id_of(name);
    if (!id) {
      throw UserError(
          "train.sentence_pairs needs a data.tokenizer with [CLS] and [SEP]; this one has no {}",
          name);
    }
    return *id;
  };
  return {id_of_name("[CLS]"), id_of_name("[SEP]")};
}

PairSource::Part PairSource::open_part(const data::Corpus& corpus, int64_t ordinal) const {
  Part part;
  part.dataset = std::make_shared<const data::IndexedDataset>(corpus.prefix);
  const data::IndexedDataset& dataset = *part.dataset;
  const Range documents = data::split_documents(dataset, sampler_);
  part.tokens = {dataset.document_begin(documents.begin), dataset.document_begin(documents.end)};
  const std::vector<int64_t> begins = dataset.document_sequences(documents);
  const Range sentences{begins.front(), begins.back()};
  part.rows = sentence_rows(dataset.sequence_lengths(sentences), begins,
                            {.most_tokens = sampler_.sequence_length - kSpecialTokens,
                             .seed = static_cast<uint32_t>(options_.seed)});
  const auto apart = [&](const SentenceRow& row) {
    return row.document != part.rows.front().document;
  };
  if (part.rows.empty()) {
    throw UserError(
        "{}: no document has two sentences of at most {} tokens; a corpus of sentence pairs is "
        "made by pack --sentences",
        corpus.prefix.string(), kLongSentence);
  }
  if (options_.relation == PairRelation::next && std::ranges::none_of(part.rows, apart))
    throw UserError("{}: train.sentence_pairs next needs two documents with sentence pairs",
                    corpus.prefix.string());
  if (part.tokens.size() < sampler_.sequence_length) {
    throw UserError("{}: {} tokens, fewer than one sample of {}", corpus.prefix.string(),
                    part.tokens.size(), sampler_.sequence_length);
  }
  MEGA_CHECK_LT(std::ssize(part.rows), int64_t{1} << 32);
  shuffle_rows(part.rows, static_cast<uint32_t>(options_.seed));
  part.key = random_key(random_key(sampler_.seed, "data order"), static_cast<uint64_t>(ordinal));
  return part;
}

PairSource::PairSource(const std::vector<data::Corpus>& corpora,
                       const data::SamplerOptions& sampler, MaskableTokens maskable,
                       const PairSourceOptions& options)
    : sampler_(sampler),
      maskable_(std::move(maskable)),
      options_(options),
      pair_key_(random_key(options.seed, "sentence pairs")),
      mask_key_(random_key(options.seed, "masking")),
      parts_([&] {
        if (sampler.sequence_length < kSpecialTokens + 2)
          throw UserError("train.sentence_pairs: {} tokens are too few for a pair",
                          sampler.sequence_length);
        std::vector<Part> parts;
        for (const data::Corpus& corpus : corpora)
          parts.push_back(open_part(corpus, std::ssize(parts)));
        return parts;
      }()),
      blend_([&] {
        std::vector<int64_t> samples;
        for (const Part& part : parts_) samples.push_back(std::ssize(part.rows));
        return data::blend_of(corpora, samples);
      }()) {
  for (const Part& part : parts_) samples_per_epoch_ += std::ssize(part.rows);
}

std::string PairSource::fingerprint(const data::AtWork& at_work) const {
  std::string prints;
  for (const Part& part : parts_)
    prints += (prints.empty() ? "" : "+") + part.dataset->fingerprint(at_work);
  return prints;
}

data::SampleAddress PairSource::locate(int64_t n) const {
  const data::Blend::Choice choice = blend_.choose(n);
  const Part& part = parts_[static_cast<size_t>(choice.corpus)];
  const int64_t rows = std::ssize(part.rows);
  data::SampleAddress address{choice.corpus, choice.number / rows, choice.number % rows, 0};
  if (sampler_.shuffle) {
    const uint64_t key = random_key(part.key, static_cast<uint64_t>(address.epoch));
    address.index = static_cast<int64_t>(
        permute(key, static_cast<uint64_t>(rows), static_cast<uint64_t>(address.index)));
  }
  return address;
}

SentencePair PairSource::pair_of(const Part& part, int64_t index, uint64_t key) const {
  const PairDraws draws(key);
  const auto at = [&](int64_t place) -> const SentenceRow& {
    return part.rows[static_cast<size_t>(place)];
  };
  const auto begin_of = [&](int64_t sentence) { return part.dataset->sequence_begin(sentence); };
  const SentenceRow& row = at(index);
  const int64_t parted = begin_of(row.begin + draws.parted(row.end - row.begin));
  SentencePair pair{{begin_of(row.begin), parted}, {parted, begin_of(row.end)}, draws.changed()};
  if (pair.label == 1 && options_.relation == PairRelation::order) std::swap(pair.a, pair.b);
  if (pair.label == 1 && options_.relation == PairRelation::next) {
    const int64_t rows = std::ssize(part.rows);
    int64_t other = draws.other(rows);
    while (at(other).document == row.document) other = (other + 1) % rows;
    pair.b = {begin_of(at(other).begin), begin_of(at(other).end)};
  }
  draws.cut(pair, row.wanted);
  return pair;
}

void PairSource::append_sample(int64_t n, data::HostBatch& batch) const {
  const data::SampleAddress address = locate(n);
  const Part& part = parts_[static_cast<size_t>(address.corpus)];
  const SentencePair pair = pair_of(part, address.index, sample_key(pair_key_, address));
  RowWriter writer(*part.dataset, sampler_.vocab_size, n, batch);
  writer.put(options_.tokens.begin, 0);
  writer.put(pair.a, 0);
  writer.put(options_.tokens.separator, 0);
  writer.put(pair.b, 1);
  writer.put(options_.tokens.separator, 1);
  writer.end_sequence();
  int64_t left = sampler_.sequence_length - pair.size() - kSpecialTokens;
  int64_t begin = part.dataset->sequence_begin(part.rows[static_cast<size_t>(address.index)].end);
  while (left > 0) {
    if (begin == part.tokens.end) begin = part.tokens.begin;
    const Range text{begin, std::min(begin + left, part.tokens.end)};
    for (const data::Piece& piece : data::document_parts(*part.dataset, text)) {
      writer.put(piece.tokens, 0);
      writer.end_sequence();
    }
    left -= text.size();
    begin = text.end;
  }
  batch.pair_targets.push_back(pair.label);
}

void PairSource::fill(int64_t first, int64_t count, data::HostBatch& batch) const {
  const int64_t length = sampler_.sequence_length;
  const auto total = checked_multiply(count, length);
  MEGA_CHECK(count >= 0 && total && *total <= std::numeric_limits<int32_t>::max(),
             "{} samples of {} tokens", count, length);
  batch.clear(first, length);
  batch.num_samples = count;
  batch.pair_targets.clear();
  for (int64_t i = 0; i < count; ++i) append_sample(first + i, batch);
  batch.targets_T.resize(batch.ids_T.size());
  batch.loss_weight_T.resize(batch.ids_T.size());
  for (int64_t i = 0; i < count; ++i) {
    const auto of_sample = [&](auto& column) {
      return std::span(column).subspan(static_cast<size_t>(i * length),
                                       static_cast<size_t>(length));
    };
    mask_sample(maskable_, options_.masking, sample_key(mask_key_, locate(first + i)),
                of_sample(batch.ids_T), of_sample(batch.targets_T), of_sample(batch.loss_weight_T));
  }
  batch.total_weight = std::accumulate(batch.loss_weight_T.begin(), batch.loss_weight_T.end(), 0.0);
}

}  // namespace megalith::objectives
