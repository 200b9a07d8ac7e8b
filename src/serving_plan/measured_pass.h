// SPDX-License-Identifier: Apache-2.0
// What a pass takes on a machine whose kernels were measured (megalith bench machine): this
// program's own pass, run on shapes alone (inference/shaped_pass.h), each of its kernels at the
// rate that the machine's file gives, and what is outside of them.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "device/recorder.h"
#include "inference/inference_model.h"
#include "serving_plan/rows.h"

namespace megalith::serving_plan {

/// The options that a deployment's model is made with.
inference::InferenceModel::Options options_of(const models::ModelSpec& spec,
                                              const Deployment& deployment);

/// Not copied or moved. Of one thread at a time.
class MeasuredPasses {
 public:
  /// `spec` and `cluster` must outlive it. UserError as inference::InferenceModel::check.
  MeasuredPasses(const models::ModelSpec& spec, const clusters::Cluster& cluster,
                 const Deployment& deployment);
  ~MeasuredPasses();

  /// Seconds of each pipeline stage. More than one sequence and a part lies in proportion between
  /// whole ones, a part alone counts as whole, and what has been read to the nearest sixteen
  /// tokens.
  std::vector<double> stages(std::span<const Rows> rows);

  /// Kernels of the passes so far whose rate the machine's file does not have: the roofline's.
  const std::set<std::string>& unmeasured() const { return unmeasured_; }

 private:
  class TracedRank;
  std::vector<double> of_whole_sequences(std::span<const Rows> rows);
  double seconds_of(std::span<const device::Record> records, double logits);
  const models::ModelSpec& spec_;
  const clusters::Cluster& cluster_;
  Deployment at_;
  std::vector<std::unique_ptr<TracedRank>> stages_;
  using Key = std::vector<std::array<int64_t, 4>>;
  std::map<Key, std::vector<double>> known_;
  std::set<std::string> unmeasured_;
};

}  // namespace megalith::serving_plan
