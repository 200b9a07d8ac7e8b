// SPDX-License-Identifier: Apache-2.0
// The key of a permutation comes from the seed, the ordinal of the corpus in the recipe and the
// epoch, never from a path: a corpus may move between folders without a change of order.
#include "data/sampler.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/error.h"
#include "base/integer.h"
#include "math/random.h"

namespace megalith::data {
namespace {

const char* part_name(const SamplerOptions& options) {
  if (options.validation_fraction == 0) return "";
  return options.split == Split::train ? "the training part of " : "the validation part of ";
}

SamplerOptions checked(const SamplerOptions& options) {
  MEGA_CHECK_GE(options.sequence_length, 1);
  MEGA_CHECK_GE(options.vocab_size, 1);
  if (!(options.validation_fraction >= 0 && options.validation_fraction < 1)) {
    throw UserError("validation fraction {} is not in [0, 1)", options.validation_fraction);
  }
  if (options.split == Split::validation) MEGA_CHECK_GT(options.validation_fraction, 0);
  return options;
}

}  // namespace

Range split_documents(const IndexedDataset& dataset, const SamplerOptions& options) {
  const int64_t documents = dataset.num_documents();
  if (options.validation_fraction == 0) return {0, documents};
  if (documents < 2) {
    throw UserError("{}: {} document(s) cannot be split for validation; give a corpus of its own",
                    dataset.prefix().string(), documents);
  }
  const double wanted = std::floor(options.validation_fraction * static_cast<double>(documents));
  const int64_t held = std::clamp<int64_t>(static_cast<int64_t>(wanted), 1, documents - 1);
  const int64_t cut = documents - held;
  return options.split == Split::train ? Range{0, cut} : Range{cut, documents};
}

Blend blend_of(const std::vector<Corpus>& corpora, std::span<const int64_t> samples) {
  std::vector<double> weights;
  for (const Corpus& corpus : corpora)
    if (corpus.weight) weights.push_back(*corpus.weight);
  if (weights.empty()) return Blend(samples);
  if (weights.size() != corpora.size()) {
    throw UserError("{} of {} corpora have a weight; give all of them one, or none", weights.size(),
                    corpora.size());
  }
  return Blend::from_weights(weights);
}

Sampler::Part Sampler::open_part(const Corpus& corpus, int64_t ordinal,
                                 const SamplerOptions& options) {
  Part part;
  part.dataset = std::make_shared<const IndexedDataset>(corpus.prefix);
  const Range documents = split_documents(*part.dataset, options);
  part.tokens = {part.dataset->document_begin(documents.begin),
                 part.dataset->document_begin(documents.end)};
  part.samples = (part.tokens.size() - 1) / options.sequence_length;
  if (part.tokens.size() < options.sequence_length + 1) {
    throw UserError(
        "{}{}: {} tokens, fewer than one sample of {}; use a shorter sequence or more "
        "text",
        part_name(options), corpus.prefix.string(), part.tokens.size(),
        options.sequence_length + 1);
  }
  part.key = random_key(random_key(options.seed, "data order"), static_cast<uint64_t>(ordinal));
  return part;
}

Sampler::Sampler(const std::vector<Corpus>& corpora, const SamplerOptions& options)
    : options_(checked(options)),
      parts_([&] {
        if (corpora.empty()) throw UserError("no corpus: name at least one prefix");
        std::vector<Part> parts;
        for (const Corpus& corpus : corpora) {
          parts.push_back(open_part(corpus, static_cast<int64_t>(parts.size()), options_));
        }
        return parts;
      }()),
      blend_([&] {
        std::vector<int64_t> samples;
        for (const Part& part : parts_) samples.push_back(part.samples);
        return blend_of(corpora, samples);
      }()) {
  for (const Part& part : parts_) samples_per_epoch_ += part.samples;
}

int64_t Sampler::samples_per_epoch(int64_t corpus) const {
  return parts_.at(static_cast<size_t>(corpus)).samples;
}

int64_t Sampler::total_samples(int64_t epochs) const {
  MEGA_CHECK_GE(epochs, 0);
  const auto total = checked_multiply(epochs, samples_per_epoch_);
  if (!total || *total >= int64_t{1} << 62) throw UserError("{} epochs are too many", epochs);
  return *total;
}

int64_t Sampler::num_tokens() const {
  int64_t sum = 0;
  for (const Part& part : parts_) sum += part.tokens.size();
  return sum;
}

std::string Sampler::fingerprint(const AtWork& at_work) const {
  std::vector<std::string> prints;
  for (const Part& part : parts_) prints.push_back(part.dataset->fingerprint(at_work));
  return fmt::format("{}", fmt::join(prints, "+"));
}

bool Sampler::has_fingerprint(const std::string& recorded, const std::string& mine) const {
  if (is_of_all_bytes(recorded.substr(0, recorded.find('+')))) return recorded == mine;
  std::vector<std::string> prints;
  for (const Part& part : parts_) prints.push_back(part.dataset->fingerprint_of_ends());
  return recorded == fmt::format("{}", fmt::join(prints, "+"));
}

SampleAddress Sampler::locate(int64_t n) const {
  const Blend::Choice choice = blend_.choose(n);
  const Part& part = parts_[static_cast<size_t>(choice.corpus)];
  SampleAddress address;
  address.corpus = choice.corpus;
  address.epoch = choice.number / part.samples;
  address.index = choice.number % part.samples;
  if (options_.shuffle) {
    const uint64_t key = random_key(part.key, static_cast<uint64_t>(address.epoch));
    address.index = static_cast<int64_t>(
        permute(key, static_cast<uint64_t>(part.samples), static_cast<uint64_t>(address.index)));
  }
  address.first_token = part.tokens.begin + address.index * options_.sequence_length;
  return address;
}

void Sampler::read(int64_t n, std::span<int32_t> tokens) const {
  MEGA_CHECK_EQ(static_cast<int64_t>(tokens.size()), options_.sequence_length + 1);
  MEGA_CHECK(!options_.whole_documents, "a sample of whole documents is read by its pieces");
  const SampleAddress address = locate(n);
  parts_[static_cast<size_t>(address.corpus)].dataset->read(address.first_token, tokens,
                                                            options_.vocab_size);
}

std::vector<Piece> Sampler::pieces(int64_t n) const {
  MEGA_CHECK(options_.whole_documents, "only a sample of whole documents has pieces");
  const SampleAddress address = locate(n);
  const Part& part = parts_[static_cast<size_t>(address.corpus)];
  return document_row(*part.dataset, part.tokens.begin, part.samples, options_.sequence_length,
                      address.index);
}

void Sampler::read(int64_t corpus, const Piece& piece, std::span<int32_t> tokens) const {
  MEGA_CHECK_EQ(static_cast<int64_t>(tokens.size()), piece.tokens.size() + piece.followed);
  parts_[static_cast<size_t>(corpus)].dataset->read(piece.tokens.begin, tokens,
                                                    options_.vocab_size);
}

}  // namespace megalith::data
