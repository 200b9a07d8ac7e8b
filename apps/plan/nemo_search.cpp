// SPDX-License-Identifier: Apache-2.0
#include "apps/plan/nemo_search.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "search/ranking.h"

namespace megalith::apps {
namespace {

/// The tool has tables for 40 and 80 GB: what a device has at least of them, or the smaller.
int table_gb(const clusters::Cluster& cluster) {
  constexpr int64_t kLeast80 = 70'000'000'000;
  return cluster.device.memory >= kLeast80 ? 80 : 40;
}

sizing::NemoSearch search_of(const SearchCommand& command, const NemoInputs& in) {
  const int64_t gpus = in.search.devices > 0 ? in.search.devices : in.cluster.devices();
  sizing::NemoSearch search;
  search.gpus_per_node = std::min(gpus, in.cluster.node.devices);
  search.nodes = gpus / search.gpus_per_node;
  if (search.nodes * search.gpus_per_node != gpus)
    throw UserError("--nemo takes whole nodes, and {} GPUs are no multiple of the {} of a node",
                    gpus, search.gpus_per_node);
  search.model = search::nemo_model(in.settings, command.nemo_size, gpus, table_gb(in.cluster));
  const models::ModelSpec& spec = in.settings.model;
  search.shape = {
      .layers = search.model.layers, .hidden = spec.hidden, .heads = search.model.heads};
  if (spec.is_encoder_decoder()) {
    search.shape.ffn = spec.layer(0).mlp.ffn;
    search.shape.head_dim = spec.layer(0).attention.head_dim;
    search.target = in.settings.loss_length();
  } else if (spec.layer(0).mlp.ffn != 4 * spec.hidden) {
    search.shape.ffn = spec.layer(0).mlp.ffn;
  }
  search.vocab = spec.vocab;
  return search;
}

void judge_rows(const NemoInputs& in, NemoAnswer& answer) {
  std::vector<search::LayoutPoint> points;
  for (const NemoRow& row : answer.rows)
    if (row.layout.point) points.push_back(*row.layout.point);
  const auto judged = search::judge_layouts(in.settings, in.cluster, in.search, points);
  size_t next = 0;
  for (size_t i = 0; i < answer.rows.size(); ++i) {
    NemoRow& row = answer.rows[i];
    if (!row.layout.point) continue;
    row.judged = judged[next++];
    row.fits = row.judged->memory_bytes <= in.cluster.usable_memory();
    if (row.fits) answer.ranked.push_back(i);
  }
  std::ranges::stable_sort(answer.ranked, [&](size_t a, size_t b) {
    return search::faster(*answer.rows[a].judged, *answer.rows[b].judged);
  });
}

void write(const std::filesystem::path& path, const std::string& text) {
  write_file_durable(path, text);
}

}  // namespace

NemoAnswer answer_nemo(const SearchCommand& command, const NemoInputs& in) {
  NemoAnswer answer;
  answer.search = search_of(command, in);
  const sizing::NemoModel& m = answer.search.model;
  answer.grid = sizing::nemo_grid(m.size, m.layers, m.sequence, m.memory_gb, m.family);
  for (search::NemoLayout& layout : search::nemo_layouts(in.settings, m))
    answer.rows.push_back({.layout = std::move(layout), .run = answer.rows.size() + 1});
  if (answer.rows.empty())
    throw UserError(
        "NeMo's auto-configurator has no candidates for {} billion parameters, {} samples a step "
        "and {} GPUs: nothing of its table divides them; change --gpus, train.global_batch or "
        "--nemo-size, or leave out --nemo",
        m.size, m.global_batch, m.gpus);
  if (in.search.progress)
    in.search.progress(fmt::format("{} candidates of NeMo's", answer.rows.size()));
  judge_rows(in, answer);
  answer.result = search::search_layouts(in.settings, in.cluster, in.search);
  return answer;
}

void write_nemo_folder(const NemoAnswer& answer, const std::filesystem::path& folder) {
  const sizing::NemoSearch& s = answer.search;
  const std::filesystem::path configs = folder / "candidate_configs",
                              final = folder / "final_result";
  make_folders(configs);
  make_folders(final);
  std::vector<sizing::NemoCandidate> failed;
  for (const NemoRow& row : answer.rows) {
    const sizing::NemoCandidate& c = row.layout.candidate;
    write(configs / (sizing::run_name(s, c) + ".yaml"), sizing::config_yaml(s, c));
    if (row.judged && !row.fits) failed.push_back(c);
  }
  std::vector<sizing::NemoResult> results;
  for (const size_t i : answer.ranked)
    results.push_back({answer.rows[i].layout.candidate, answer.rows[i].judged->time.seconds});
  const std::string nodes = sizing::nodes_name(s);
  write(final / fmt::format("final_summary_{}.csv", nodes), sizing::summary_csv(s, results));
  write(final / fmt::format("failed_jobs_{}.csv", nodes), sizing::failed_csv(s, failed));
  if (!results.empty())
    write(final / fmt::format("optimal_config_{}.yaml", sizing::size_and_nodes(s)),
          sizing::config_yaml(s, results.front().candidate));
}

}  // namespace megalith::apps
