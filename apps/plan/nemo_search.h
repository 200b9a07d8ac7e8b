// SPDX-License-Identifier: Apache-2.0
// plan --search --nemo: what NeMo's auto-configurator would run for a recipe, each candidate
// predicted and planned instead of run, beside what all layouts hold.
#pragma once

#include "apps/plan/search_command.h"
#include "search/nemo_layouts.h"
#include "sizing/nemo_files.h"

namespace megalith::apps {

/// One of the tool's candidates.
struct NemoRow {
  search::NemoLayout layout;
  size_t run = 0;  // its place in the order of the tool's runs, from 1 on
  std::optional<search::Candidate> judged = {};  // absent where there is no layout
  bool fits = false;
};

struct NemoAnswer {
  sizing::NemoSearch search;
  sizing::NemoGrid grid;
  std::vector<NemoRow> rows;    // in the tool's order
  std::vector<size_t> ranked;   // of those that fit, the fastest first
  search::SearchResult result;  // of all layouts
};

struct NemoInputs {
  const config::Recipe& recipe;
  const engine::Settings& settings;
  const clusters::Cluster& cluster;
  const search::SearchOptions& search;
};

/// UserError when the GPUs are no whole nodes, or the tool has nothing for the model.
NemoAnswer answer_nemo(const SearchCommand& command, const NemoInputs& inputs);

/// candidate_configs/, final_result/final_summary_*.csv, failed_jobs_*.csv and, where one fits,
/// optimal_config_*.yaml, as the tool leaves them.
void write_nemo_folder(const NemoAnswer& answer, const std::filesystem::path& folder);

std::string nemo_text(const NemoAnswer& answer, const NemoInputs& inputs, size_t top);
nlohmann::ordered_json nemo_json(const NemoAnswer& answer, const NemoInputs& inputs);

}  // namespace megalith::apps
