// SPDX-License-Identifier: Apache-2.0
#include "serving_plan/pass_time.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "costs/wire_time.h"
#include "spec/head_types.h"

namespace megalith::serving_plan {

struct PassTimes::Sums {
  double tokens = 0;
  double chosen = 0;  // tokens with logits
};

struct PassTimes::Attended {
  double tokens = 0;
  double kept = 0;   // of the past and these, those whose keys and values are read
  double pairs = 0;  // of a query and a key
};

namespace {

double bytes_of_weight(Format format) {
  switch (format) {
    case Format::q8_0:
      return 34.0 / 32;  // 32 integers and a scale
    case Format::q4_0:
      return 18.0 / 32;
    case Format::q4_1:
      return 20.0 / 32;
    case Format::f32:
      return 4;
    default:
      return 2;
  }
}

}  // namespace

PassTimes::PassTimes(const models::ModelSpec& spec, const clusters::Cluster& cluster,
                     const Deployment& deployment)
    : spec_(spec),
      cluster_(cluster),
      at_(deployment),
      rate_(cluster.known(deployment.products)),
      bandwidth_(cluster.device.bandwidth * cluster.device.bandwidth_share),
      weight_bytes_(bytes_of_weight(deployment.weights)),
      element_bytes_(deployment.products == clusters::ProductType::f32 ? 4 : 2) {
  if (spec.is_encoder_decoder() || !spec.is_causal())
    throw UserError(
        "plan --inference predicts models that write from one stack of layers, {} is none",
        spec.family);
  layers::require_logits(spec.head, "plan --inference");
  if (deployment.tensor * deployment.pipeline > cluster.devices())
    throw UserError("{} tensor x {} pipeline ranks are more than the {} devices of cluster {}",
                    deployment.tensor, deployment.pipeline, cluster.devices(), cluster.name);
  if (!cluster.device.serving.empty())
    measured_ = std::make_shared<MeasuredPasses>(spec, cluster, deployment);
}

std::vector<std::string> PassTimes::unmeasured() const {
  if (measured_ == nullptr) return {};
  return {measured_->unmeasured().begin(), measured_->unmeasured().end()};
}

/// The roofline: products of that inner dimension, or bytes, and a launch.
double PassTimes::kernel(double operations, double depth, double bytes) const {
  const double computing = operations / (rate_.peak * *rate_.share) * (1 + rate_.depth / depth);
  return std::max(computing, bytes / bandwidth_) + cluster_.device.launch_seconds;
}

double PassTimes::product(double rows, double inputs, double outputs) const {
  return kernel(2 * rows * inputs * outputs, inputs,
                weight_bytes_ * inputs * outputs + element_bytes_ * rows * (inputs + outputs));
}

double PassTimes::stream(double bytes) const {
  return bytes / bandwidth_ + cluster_.device.launch_seconds;
}

// A collective is a kernel too.
double PassTimes::all_reduce(double bytes) const {
  if (at_.tensor == 1) return 0;
  return cluster_.device.launch_seconds +
         costs::all_reduce_seconds(cluster_, {.ranks = at_.tensor}, bytes);
}

double PassTimes::all_gather(double bytes) const {
  if (at_.tensor == 1) return 0;
  return cluster_.device.launch_seconds +
         costs::all_gather_seconds(cluster_, {.ranks = at_.tensor}, bytes);
}

/// Each tensor rank sends its part, and they gather it.
double PassTimes::send(double bytes) const {
  const auto tensor = static_cast<double>(at_.tensor);
  return cluster_.device.launch_seconds +
         costs::send_seconds(cluster_, {.ranks = at_.pipeline, .stride = at_.tensor},
                             bytes / tensor) +
         all_gather(bytes);
}

double PassTimes::query_columns(const layers::AttentionSpec& a) const {
  return static_cast<double>(a.query_width()) / static_cast<double>(at_.tensor);
}

/// Key/value heads that are fewer than the ranks are on several of them.
double PassTimes::kv_columns(const layers::AttentionSpec& a) const {
  return static_cast<double>(a.kv_width()) / static_cast<double>(std::min(at_.tensor, a.kv_heads));
}

double PassTimes::attention(const layers::AttentionSpec& a, std::span<const Rows> rows) const {
  Attended written, read;
  for (const Rows& r : rows) {
    const double all = r.past + r.count;
    const auto seen = [&](double keys) {
      return a.window > 0 ? std::min(keys, static_cast<double>(a.window)) : keys;
    };
    const bool is_prompt = r.count > 1;
    Attended& sum = is_prompt ? read : written;
    sum.tokens += r.times * r.count;
    sum.kept += r.times * std::min(all, seen(all) + r.count);
    // Stored scores are whole squares; else pairs are those that exist.
    const double keys = is_prompt && !a.materialised ? seen(r.past + (r.count + 1) / 2) : seen(all);
    sum.pairs += r.times * r.count * keys;
  }
  return (written.tokens > 0 ? fused(a, written) : 0) + (read.tokens > 0 ? prompts(a, read) : 0);
}

/// Keys and values are read; queries, new keys and values, and results pass by.
double PassTimes::fused(const layers::AttentionSpec& a, const Attended& sum) const {
  const double query = query_columns(a), kv = kv_columns(a);
  return kernel(4 * sum.pairs * query, static_cast<double>(a.head_dim),
                element_bytes_ * (sum.kept * kv + sum.tokens * (2 * query + kv)));
}

double PassTimes::prompts(const layers::AttentionSpec& a, const Attended& sum) const {
  const double query = query_columns(a), kv = kv_columns(a);
  // Biases or rotation, by head; then into the cache.
  const double ordered = stream(2 * element_bytes_ * sum.tokens * (query + kv)) +
                         stream(2 * element_bytes_ * sum.tokens * kv);
  if (!a.materialised) return ordered + fused(a, sum);
  const double scores = sum.pairs * static_cast<double>(a.heads) / static_cast<double>(at_.tensor);
  const double bytes = element_bytes_ * (sum.tokens * query + sum.kept * kv / 2 + scores);
  return ordered + kernel(2 * sum.pairs * query, static_cast<double>(a.head_dim), bytes) +
         stream(2 * element_bytes_ * scores) +
         kernel(2 * sum.pairs * query, sum.pairs / sum.tokens, bytes) +
         stream(2 * element_bytes_ * sum.tokens * query);
}

double PassTimes::layer(const layers::LayerSpec& l, std::span<const Rows> rows,
                        const Sums& sums) const {
  const auto tensor = static_cast<double>(at_.tensor), h = static_cast<double>(spec_.hidden);
  const layers::AttentionSpec& a = l.attention;
  const double n = sums.tokens, q = query_columns(a), kv = kv_columns(a);
  const double up = static_cast<double>(l.mlp.up_width()) / tensor;
  const double ffn = static_cast<double>(l.mlp.ffn) / tensor;
  const double sum = all_reduce(element_bytes_ * n * h);
  // An addition with its norm reads two and writes two. A parallel block sums both halves at once.
  return product(n, h, q + kv) + attention(a, rows) + product(n, q, h) + product(n, h, up) +
         product(n, ffn, h) + 2 * stream(4 * element_bytes_ * n * h) + (l.parallel ? 1 : 2) * sum;
}

double PassTimes::head(const Sums& sums) const {
  const double vocab = static_cast<double>(spec_.vocab) / static_cast<double>(at_.tensor);
  // Logits are gathered, then read by the sampling.
  const double logits = element_bytes_ * sums.chosen * static_cast<double>(spec_.vocab);
  return product(sums.chosen, static_cast<double>(spec_.table_width()), vocab) +
         all_gather(logits) + stream(2 * logits);
}

std::vector<double> PassTimes::stages(std::span<const Rows> rows) const {
  if (measured_ != nullptr) return measured_->stages(rows);
  Sums sums;
  for (const Rows& r : rows) {
    sums.tokens += r.times * r.count;
    sums.chosen += r.chooses ? r.times : 0;
  }
  std::vector<double> seconds;
  const int64_t layers = spec_.num_layers(), p = at_.pipeline;
  const double row_bytes = element_bytes_ * sums.tokens * static_cast<double>(spec_.hidden);
  for (int64_t stage = 0, begin = 0; stage < p; ++stage) {
    const int64_t end = begin + layers / p + (stage < layers % p ? 1 : 0);
    double of_stage = stage == 0 ? stream(2 * row_bytes) : 0;
    double of_layer = 0;
    for (int64_t i = begin; i < end; ++i) {
      if (i == begin || !(spec_.layer(i) == spec_.layer(i - 1)))
        of_layer = layer(spec_.layer(i), rows, sums);
      of_stage += of_layer;
    }
    if (stage == p - 1) {
      of_stage += head(sums);
    } else {
      of_stage += send(row_bytes);
    }
    seconds.push_back(of_stage);
    begin = end;
  }
  return seconds;
}

double PassTimes::through(std::span<const Rows> rows) const { return pipelined(rows, 1); }

double PassTimes::pipelined(std::span<const Rows> rows, int64_t parts) const {
  const std::vector<double> all = stages(rows);
  return std::accumulate(all.begin(), all.end(), 0.0) +
         static_cast<double>(parts - 1) * *std::ranges::max_element(all);
}

}  // namespace megalith::serving_plan
