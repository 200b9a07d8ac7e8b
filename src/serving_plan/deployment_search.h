// SPDX-License-Identifier: Apache-2.0
// Every way to serve a model on a cluster, predicted: tensor and pipeline ranks, requests at once,
// the format of weights, tokens of a pass. Memory is planned by tracing the largest passes of this
// program (generate/block_plan.h), so the blocks of keys and values that are left are counted, not
// estimated; times are pass_time.h's.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "generate/block_plan.h"
#include "serving_plan/candidate.h"
#include "serving_plan/served_load.h"

namespace megalith::serving_plan {

struct SearchSpace {
  std::vector<int64_t> batches = {1, 4, 16, 64, 256};
  std::vector<int64_t> chunks = {512, 2048};  // tokens of a pass
  std::vector<Format> weights = {Format::bf16};
  int64_t most_gpus = 0;  // of one copy of the model; 0: a node's, or all of a cluster of one node
};

struct Workload {
  int64_t input = 512, output = 128;  // tokens of a request
  /// Requests a second at one copy of the model; 0: all of a batch at once.
  double arrivals = 0;
  int64_t requests = 400;  // that are simulated then, or eight times the batch if that is more
  uint64_t seed = 1;
};

/// With arrivals the figures are those that 95 % of the requests do not exceed. Candidates without
/// room, or with a queue that grows, have a failure that says so; layouts that do not divide the
/// model are left out. UserError when nothing is left.
std::vector<Candidate> predict_all(const models::ModelSpec& spec, const clusters::Cluster& cluster,
                                   const SearchSpace& space, const Workload& workload);

/// What the rank that takes most does of a layout: generate::plan_memory of it, of models of equal
/// layers from two small ones, because weights and blocks grow by the same bytes with every layer
/// and a pass by none.
generate::RankMemory largest_rank(const models::ModelSpec& spec,
                                  const inference::InferenceModel::Options& options,
                                  const generate::Scheduler::Limits& limits, int64_t context);

/// What the predictions of these candidates rest on, a line each.
std::vector<std::string> assumptions(const clusters::Cluster& cluster, const Workload& workload,
                                     std::span<const Candidate> candidates);

}  // namespace megalith::serving_plan
