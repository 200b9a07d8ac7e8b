// SPDX-License-Identifier: Apache-2.0
// The files of NeMo's auto-configurator, so that what reads them reads these: its tables of results
// and of failed runs, and a candidate's keys as its launcher has them. Columns, names (its spelling
// included), order and roundings are the tool's (compare_throughput.py of 4550dc9).
#pragma once

#include <span>
#include <string>

#include "sizing/nemo_grid.h"

namespace megalith::sizing {

/// What all files of a search say.
struct NemoSearch {
  NemoModel model;
  NemoShape shape;
  int64_t vocab = 0;
  int64_t target = 0;  // tokens of a sample that a t5 decoder learns
  int64_t nodes = 1, gpus_per_node = 1;
};

struct NemoResult {
  NemoCandidate candidate;
  double seconds = 0;  // of a step
};

/// "gpt3_175b_128nodes_tp_8_...": of a candidate's file and run.
std::string run_name(const NemoSearch& search, const NemoCandidate& candidate);
/// "175b_128nodes", "128nodes": in the names of files of results.
std::string size_and_nodes(const NemoSearch& search);
std::string nodes_name(const NemoSearch& search);

/// final_summary_*.csv: the fastest first.
std::string summary_csv(const NemoSearch& search, std::span<const NemoResult> results);
/// failed_jobs_*.csv: of runs out of memory, which are all that the tool looks for.
std::string failed_csv(const NemoSearch& search, std::span<const NemoCandidate> failed);
/// The keys that the tool sets in its base file for a run of 50 steps, as YAML.
std::string config_yaml(const NemoSearch& search, const NemoCandidate& candidate);

}  // namespace megalith::sizing
