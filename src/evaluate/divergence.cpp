// SPDX-License-Identifier: Apache-2.0
#include "evaluate/divergence.h"

#include <algorithm>
#include <cmath>

#include "evaluate/windows.h"
#include "inference/text_batch.h"

namespace megalith::evaluate {
namespace {

/// Of tokens whose logits are on the host at a time.
constexpr int64_t kRows = 64;

/// What a model makes of a text, up to its logits.
class ReadText {
 public:
  ReadText(inference::InferenceEngine& engine, std::span<const int32_t> ids)
      : model_(engine.model()),
        text_(model_.device(), with_reach(ids)),
        context_(model_.inference_context()),
        x_TH_(context_.workspace(context_.activation,
                                 Shape{text_.batch().num_tokens, model_.spec().hidden})) {
    model_.through_stages(x_TH_, "inference.activation",
                          [&](const models::Decoder& model_chunk, size_t) {
                            model_chunk.hidden(context_, text_.batch(), x_TH_);
                          });
  }

  /// [count, vocabulary] of the tokens from `first` on.
  std::vector<float> logits(int64_t first, int64_t count) {
    const models::ModelSpec& spec = model_.spec();
    const device::Tensor padded = context_.workspace(
        DType::f32, Shape{count, spec.padded_vocab(model_.settings().split.tensor_shards)});
    model_.head().logits(context_, x_TH_.view.rows(first, count), padded);
    std::vector<float> host(static_cast<size_t>(count * spec.vocab));
    device::Device& device = model_.device();
    for (int64_t r = 0; r < count; ++r) {
      device.wait(device.copy_to_host(host.data() + r * spec.vocab,
                                      padded.view.rows(r, 1).columns(0, spec.vocab)));
    }
    return host;
  }

 private:
  /// All but the last, which is only predicted.
  static inference::TextSequences with_reach(std::span<const int32_t> ids) {
    inference::TextSequences sequences = inference::one_sequence(ids.first(ids.size() - 1));
    sequences.reach = {static_cast<int32_t>(ids.size())};
    return sequences;
  }
  engine::ShardedModel& model_;
  inference::TextBatch text_;
  layers::Context context_;
  device::Tensor x_TH_;
};

/// log sum exp of a row.
double log_sum(std::span<const float> logits) {
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - most);
  return most + std::log(sum);
}

void add_token(std::span<const float> p, std::span<const float> q, int32_t target,
               Divergence& result) {
  const double p_sum = log_sum(p), q_sum = log_sum(q);
  const auto i = static_cast<size_t>(target);
  ++result.tokens;
  result.nll += p_sum - static_cast<double>(p[i]);
  result.other_nll += q_sum - static_cast<double>(q[i]);
  for (size_t v = 0; v < p.size(); ++v) {
    const double log_p = static_cast<double>(p[v]) - p_sum,
                 log_q = static_cast<double>(q[v]) - q_sum;
    const double probability = std::exp(log_p);
    if (probability > 0) result.kl += probability * (log_p - log_q);
  }
  const auto choice = [](std::span<const float> row) {
    return std::ranges::max_element(row) - row.begin();
  };
  result.same_choices += choice(p) == choice(q);
}

}  // namespace

double Divergence::perplexity() const { return std::exp(nll / static_cast<double>(tokens)); }
double Divergence::other_perplexity() const {
  return std::exp(other_nll / static_cast<double>(tokens));
}
double Divergence::mean_kl() const { return kl / static_cast<double>(tokens); }
double Divergence::same_choice_fraction() const {
  return static_cast<double>(same_choices) / static_cast<double>(tokens);
}

Divergence divergence(inference::InferenceEngine& model, inference::InferenceEngine& other,
                      std::span<const int32_t> ids, const OnProgress& on_progress) {
  for (const inference::InferenceEngine* each : {&model, &other})
    inference::require_one_stack(each->spec(), "comparing predictions");
  if (model.spec().vocab != other.spec().vocab) {
    throw UserError("vocabularies of {} and {} tokens: the models predict different things",
                    model.spec().vocab, other.spec().vocab);
  }
  inference::check_ids(model.spec(), ids, std::ssize(ids));
  const auto vocab = static_cast<size_t>(model.spec().vocab);
  Divergence result;
  for_each_window(ids, std::min(model.spec().context, other.spec().context),
                  [&](std::span<const int32_t> window, int64_t first) {
                    ReadText one(model, window), two(other, window);
                    // Token t of the window is predicted by row t - 1.
                    for (int64_t row = first - 1; row < std::ssize(window) - 1; row += kRows) {
                      const int64_t count = std::min(kRows, std::ssize(window) - 1 - row);
                      const std::vector<float> p = one.logits(row, count);
                      const std::vector<float> q = two.logits(row, count);
                      for (int64_t r = 0; r < count; ++r) {
                        const size_t at = static_cast<size_t>(r) * vocab;
                        add_token(std::span(p).subspan(at, vocab), std::span(q).subspan(at, vocab),
                                  window[static_cast<size_t>(row + r + 1)], result);
                      }
                    }
                    if (on_progress) on_progress(result.tokens);
                  });
  return result;
}

}  // namespace megalith::evaluate
