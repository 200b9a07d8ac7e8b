// SPDX-License-Identifier: Apache-2.0
// What a pass of an inference engine takes on a cluster, from the description of the model and the
// figures of the machine alone: products by the roofline with the weights read once a pass, keys
// and values read once a sequence, sums over tensor ranks, sends between pipeline stages, and a
// launch for each kernel. A layer is seven kernels, of an engine that fuses what can be fused: four
// products with their biases and activations, attention with its cache, two additions with norms.
// Prompts cannot have all of attention in one kernel: heads are put in order and into the cache
// first, and scores that are stored are two products and a softmax, behind which heads are put back
// (FasterTransformer). On a machine whose kernels were measured a pass is this program's own, at
// their rates (measured_pass.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "clusters/cluster.h"
#include "serving_plan/measured_pass.h"
#include "serving_plan/rows.h"
#include "spec/model_spec.h"

namespace megalith::serving_plan {

class PassTimes {
 public:
  /// UserError for a cluster without the figures, a model with an encoder or without logits, and a
  /// deployment with more devices than the cluster has. `spec` and `cluster` must outlive this.
  PassTimes(const models::ModelSpec& spec, const clusters::Cluster& cluster,
            const Deployment& deployment);

  /// Seconds through all stages, one after another.
  double through(std::span<const Rows> rows) const;
  /// Of `parts` passes of these rows that follow one another into the pipeline: the last leaves
  /// `parts` - 1 times the slowest stage behind the first.
  double pipelined(std::span<const Rows> rows, int64_t parts) const;

  /// On a machine whose kernels were measured: those of the passes so far that were not.
  std::vector<std::string> unmeasured() const;

 private:
  struct Sums;
  struct Attended;
  std::vector<double> stages(std::span<const Rows> rows) const;
  double layer(const layers::LayerSpec& layer, std::span<const Rows> rows, const Sums& sums) const;
  double attention(const layers::AttentionSpec& attention, std::span<const Rows> rows) const;
  double fused(const layers::AttentionSpec& attention, const Attended& attended) const;
  double prompts(const layers::AttentionSpec& attention, const Attended& attended) const;
  double kernel(double operations, double depth, double bytes) const;
  double query_columns(const layers::AttentionSpec& attention) const;
  double kv_columns(const layers::AttentionSpec& attention) const;
  double head(const Sums& sums) const;
  double product(double rows, double inputs, double outputs) const;
  double stream(double bytes) const;
  double all_reduce(double bytes) const;
  double all_gather(double bytes) const;
  double send(double bytes) const;

  const models::ModelSpec& spec_;
  const clusters::Cluster& cluster_;
  Deployment at_;
  const clusters::ProductRate& rate_;
  /// Where kernels were measured; then nothing below is asked.
  std::shared_ptr<MeasuredPasses> measured_;
  double bandwidth_;      // of memory, reached
  double weight_bytes_;   // of an element
  double element_bytes_;  // of an activation, a key, a value
};

}  // namespace megalith::serving_plan
