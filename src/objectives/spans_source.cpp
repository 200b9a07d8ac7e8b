// SPDX-License-Identifier: Apache-2.0
#include "objectives/spans_source.h"

#include <limits>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/integer.h"
#include "math/random.h"
#include "objectives/draws.h"

namespace megalith::objectives {
namespace {

/// `name` as it is, or behind the mark of a word as SentencePiece puts it before user-defined
/// pieces (mT5).
std::optional<int32_t> find_token(const text::Tokenizer& tokenizer, const std::string& name) {
  const auto id = tokenizer.id_of(name);
  return id ? id : tokenizer.id_of("\u2581" + name);
}

std::string sentinel_name(const std::string& pattern, int64_t number) {
  const size_t at = pattern.find("{}");
  return pattern.substr(0, at) + std::to_string(number) + pattern.substr(at + 2);
}

/// Samples of `length` tokens with one sequence each.
void shape(data::HostTokens& tokens, int64_t first, int64_t count, int64_t length) {
  const auto total = checked_multiply(count, length);
  MEGA_CHECK(count >= 0 && total && *total <= std::numeric_limits<int32_t>::max(),
             "{} samples of {} tokens", count, length);
  tokens.clear(first, length);
  tokens.num_samples = count;
  tokens.ids_T.resize(static_cast<size_t>(*total));
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t t = 0; t < length; ++t) tokens.position_T.push_back(static_cast<int32_t>(t));
    tokens.cu_seqlens.push_back(static_cast<int32_t>((i + 1) * length));
    tokens.sequence_sample.push_back(first + i);
  }
}

}  // namespace

SpanTokens span_tokens(const text::Tokenizer& tokenizer, const SpanSpelling& spelling,
                       int64_t sentinels) {
  if (spelling.sentinel.find("{}") == std::string::npos)
    throw UserError("train.spans.sentinel: {:?} has no {{}} for the number", spelling.sentinel);
  SpanTokens tokens;
  for (int64_t i = 0; i < sentinels; ++i) {
    const std::string name = sentinel_name(spelling.sentinel, i);
    const auto id = find_token(tokenizer, name);
    if (!id) {
      throw UserError(
          "train.objective spans hides {} spans of a sample and needs a data.tokenizer with as "
          "many sentinels; this one has no {:?}: use another, shorter samples or longer spans, or "
          "name its own in train.spans.sentinel",
          sentinels, name);
    }
    tokens.sentinels.push_back(*id);
  }
  const auto start = find_token(tokenizer, spelling.start);
  if (!start) {
    throw UserError(
        "train.objective spans: data.tokenizer has no token {:?} for the decoder to begin with; "
        "name one in train.spans.start",
        spelling.start);
  }
  const auto end = tokenizer.end_of_document();
  if (!end)
    throw UserError("train.objective spans needs a data.tokenizer with an end-of-document token");
  tokens.start = *start;
  tokens.end = *end;
  return tokens;
}

SpansSource::SpansSource(const std::vector<data::Corpus>& corpora,
                         const data::SamplerOptions& sampler, const SpanCounts& counts,
                         SpanTokens tokens, uint64_t seed)
    : sampler_(corpora, sampler),
      counts_(counts),
      tokens_(std::move(tokens)),
      key_(random_key(seed, "spans")) {
  MEGA_CHECK_EQ(sampler.sequence_length, counts.raw);
}

void SpansSource::fill(int64_t first, int64_t count, data::HostBatch& batch) const {
  shape(batch, first, count, counts_.decoder_length());
  shape(batch.encoder, first, count, counts_.encoder_length());
  batch.targets_T.resize(batch.ids_T.size());
  batch.loss_weight_T.assign(batch.ids_T.size(), 1.0f);
  batch.total_weight = static_cast<double>(batch.num_tokens());
  std::vector<int32_t> read(static_cast<size_t>(counts_.raw + 1));
  for (int64_t i = 0; i < count; ++i) {
    const auto of_sample = [i](std::vector<int32_t>& column, int64_t length) {
      return std::span(column).subspan(static_cast<size_t>(i * length),
                                       static_cast<size_t>(length));
    };
    sampler_.read(first + i, read);
    corrupt_sample(counts_, tokens_, sample_key(key_, sampler_.locate(first + i)),
                   std::span(read).first(static_cast<size_t>(counts_.raw)),
                   {of_sample(batch.encoder.ids_T, counts_.encoder_length()),
                    of_sample(batch.ids_T, counts_.decoder_length()),
                    of_sample(batch.targets_T, counts_.decoder_length())});
  }
}

}  // namespace megalith::objectives
