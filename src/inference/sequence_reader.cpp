// SPDX-License-Identifier: Apache-2.0
#include "inference/sequence_reader.h"

#include <algorithm>
#include <cmath>

#include "device/staged_copies.h"
#include "inference/text_batch.h"
#include "kernels/reduction/pool_rows.h"

namespace megalith::inference {
namespace {

/// Tokens of one pass: enough to keep the products efficient. A longer sequence has one of its own.
constexpr size_t kMostTokens = 4096;

/// Ids and types; a model with a table of types is given one for each token.
void append(const models::ModelSpec& spec, const Reading& reading, TextSequences& sequences) {
  sequences.ids.insert(sequences.ids.end(), reading.ids.begin(), reading.ids.end());
  sequences.cu_seqlens.push_back(static_cast<int32_t>(sequences.ids.size()));
  if (spec.embedding.token_types == 0) return;
  sequences.types.insert(sequences.types.end(), reading.types.begin(), reading.types.end());
  sequences.types.resize(sequences.ids.size());
}

/// Calls `pass` with as many of the readings as go through the model at once.
void in_passes(const models::ModelSpec& spec, std::span<const Reading> readings,
               FunctionRef<void(const TextSequences&)> pass) {
  TextSequences sequences;
  for (const Reading& reading : readings) {
    if (sequences.count() > 0 && sequences.ids.size() + reading.ids.size() > kMostTokens) {
      pass(sequences);
      sequences = {};
    }
    append(spec, reading, sequences);
  }
  if (sequences.count() > 0) pass(sequences);
}

}  // namespace

void check_readable(const models::ModelSpec& spec, const Reading& reading) {
  if (spec.is_encoder_decoder()) {
    throw UserError(
        "rows of an encoder-decoder are of two texts; embedding, classifying and masked scoring "
        "read models of one stack");
  }
  check_ids(spec, reading.ids, spec.context);
  if (reading.types.empty()) return;
  if (spec.embedding.token_types == 0)
    throw UserError("there are types of tokens, and the model has no table of them");
  if (reading.types.size() != reading.ids.size())
    throw UserError("{} types of {} tokens", reading.types.size(), reading.ids.size());
  for (const int32_t type : reading.types) {
    if (type < 0 || type >= spec.embedding.token_types) {
      throw UserError("the type {} of a token is outside the model's {}", type,
                      spec.embedding.token_types);
    }
  }
}

void require_masked_head(const models::ModelSpec& spec) {
  layers::require_logits(spec.head, "scoring of masked tokens");
  if (spec.is_causal()) {
    throw UserError(
        "scoring of masked tokens needs an encoder; this model predicts the next token: leave out "
        "--masked");
  }
}

void require_outputs(const models::ModelSpec& spec) {
  const layers::HeadKind kind = spec.head.kind;
  if (!layers::head_type(kind).has_logits && kind != layers::HeadKind::none) return;
  throw UserError("classifying needs a model with a head of classes or numbers; this one's is {}",
                  settings::name_of(kind));
}

std::vector<double> SequenceReader::read(const TextSequences& sequences, const Finish& finish) {
  if (model_.virtual_tokens() + model_.tokens_in_text() > 0) {
    throw UserError(
        "virtual tokens stand before or in texts that are written or scored; embeddings and "
        "classes of texts are not supported with virtual tokens");
  }
  const TextBatch text(model_.device(), sequences);
  layers::Context context = model_.inference_context();
  const device::Tensor x =
      context.workspace(context.activation, Shape{text.batch().num_tokens, model_.spec().hidden});
  model_.through_stages(x, "inference.activation", [&](const models::Decoder& model_chunk, size_t) {
    model_chunk.hidden(context, text.batch(), x);
  });
  std::vector<double> values;
  if (model_.mesh().is_last_stage()) values = finish(context, text.batch(), x);
  return model_.from_last_stage(values, "inference.result");
}

std::vector<std::vector<double>> SequenceReader::embed(std::span<const Reading> readings,
                                                       kernels::Pooling pooling) {
  const int64_t hidden = model_.spec().hidden;
  std::vector<std::vector<double>> rows;
  in_passes(model_.spec(), readings, [&](const TextSequences& sequences) {
    const auto values = read(sequences, [&](layers::Context& context, const layers::Batch& batch,
                                            ConstView x_TH) {
      const device::Tensor last = context.workspace(context.activation, x_TH.shape());
      const device::Tensor pooled =
          context.workspace(DType::f32, Shape{sequences.count(), x_TH.size(1)});
      model_.head().last_hidden(context, x_TH, last);
      kernels::pool_rows_forward(context.exec, {last, batch.cu_seqlens_device, pooled, pooling});
      return model_.to_host(pooled.view);
    });
    for (auto from = values.begin(); from != values.end(); from += hidden)
      rows.emplace_back(from, from + hidden);
  });
  return rows;
}

std::vector<std::vector<std::vector<double>>> SequenceReader::outputs(
    std::span<const Reading> readings) {
  const models::ModelSpec& spec = model_.spec();
  require_outputs(spec);
  const bool of_tokens = layers::reads_each_token(spec.head.kind);
  std::vector<std::vector<std::vector<double>>> all;
  in_passes(spec, readings, [&](const TextSequences& sequences) {
    const auto values =
        read(sequences, [&](layers::Context& context, const layers::Batch& batch, ConstView x_TH) {
          const int64_t units = of_tokens ? batch.num_tokens : sequences.count();
          const device::Tensor y_UO =
              context.workspace(context.accumulation, Shape{units, spec.head.outputs});
          model_.head().outputs(context, batch, x_TH, y_UO);
          return model_.to_host(y_UO.view);
        });
    if (values.empty()) return;
    auto from = values.begin();
    for (int64_t s = 0; s < sequences.count(); ++s) {
      const auto at = static_cast<size_t>(s);
      const int64_t units = of_tokens ? sequences.cu_seqlens[at + 1] - sequences.cu_seqlens[at] : 1;
      std::vector<std::vector<double>>& rows = all.emplace_back();
      for (int64_t u = 0; u < units; ++u, from += spec.head.outputs)
        rows.emplace_back(from, from + spec.head.outputs);
    }
  });
  return all;
}

void require_finite(std::span<const std::vector<std::vector<double>>> outputs) {
  for (const auto& rows : outputs)
    for (const std::vector<double>& row : rows)
      if (!std::ranges::all_of(row, [](double x) { return std::isfinite(x); }))
        throw UserError("the model's outputs are not all finite numbers; nothing can be scored");
}

std::vector<double> SequenceReader::masked_scores(const Reading& reading, int32_t mask_id) {
  const models::ModelSpec& spec = model_.spec();
  require_masked_head(spec);
  // One copy for each token, with that one masked.
  std::vector<Reading> copies(reading.ids.size(), reading);
  for (size_t i = 0; i < copies.size(); ++i) copies[i].ids[i] = mask_id;
  std::vector<double> scores;
  size_t done = 0;
  in_passes(spec, copies, [&](const TextSequences& sequences) {
    const int64_t count = sequences.count(), length = std::ssize(reading.ids);
    const std::span<const int32_t> targets(reading.ids.data() + done, static_cast<size_t>(count));
    const auto losses =
        read(sequences, [&](layers::Context& context, const layers::Batch&, ConstView x_TH) {
          // Copy s has its mask in place done + s; the head reads that row alone.
          const device::Tensor rows = context.workspace(x_TH.dtype(), Shape{count, x_TH.size(1)});
          for (int64_t s = 0; s < count; ++s) {
            const int64_t row = s * length + static_cast<int64_t>(done) + s;
            context.device().copy(rows.view.rows(s, 1), x_TH.rows(row, 1));
          }
          device::StagedCopies copies_of(context.device());
          layers::Batch masked;
          masked.num_tokens = count;
          masked.targets_T = copies_of.place(targets);
          const device::Tensor loss = context.workspace(DType::f32, Shape{count});
          model_.head().score(context, masked, rows, loss);
          return model_.to_host(loss.view);
        });
    for (const double loss : losses) scores.push_back(-loss);
    done += static_cast<size_t>(count);
  });
  return scores;
}

}  // namespace megalith::inference
