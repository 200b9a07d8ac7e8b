// SPDX-License-Identifier: Apache-2.0
#include "apps/paper_plan.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "account/paper_table.h"
#include "apps/command.h"

namespace megalith::apps {
namespace {

double gib(int64_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024 * 1024); }

double percent(const account::PaperRow& row, int64_t bytes) {
  return 100.0 * static_cast<double>(bytes) / static_cast<double>(row.none);
}

nlohmann::ordered_json row_json(const account::PaperRow& row) {
  const account::PaperModel& m = *row.model;
  return {{"model", m.name},
          {"tensor", m.tensor},
          {"pipeline", m.pipeline},
          {"chunks", m.chunks},
          {"state_bytes", row.state},
          {"state_gib", gib(row.state)},
          {"state_gib_paper", m.state_gib},
          {"activation_bytes", row.none},
          {"activation_gib", gib(row.none)},
          {"activation_gib_paper", m.activations_gib},
          {"reduced_bytes", row.reduced},
          {"reduced_gib", gib(row.reduced)},
          {"reduced_gib_paper", m.reduced_gib},
          {"percent",
           {percent(row, row.sequence), percent(row, row.selective), percent(row, row.reduced),
            percent(row, row.full)}},
          {"percent_paper",
           {m.sequence_percent, m.selective_percent, m.reduced_percent, m.full_percent}},
          {"embedding_state_bytes", row.embedding_state},
          {"head_state_bytes", row.head_state},
          {"embedding_activation_bytes", row.embedding_activations},
          {"head_activation_bytes", row.head_activations}};
}

void print_row(const account::PaperRow& row) {
  const account::PaperModel& m = *row.model;
  const auto pair = [](double traced, double paper) {
    return fmt::format("{:.2f} / {:.2f}", traced, paper);
  };
  const auto shares = [](double traced, double paper) {
    return fmt::format("{:.1f} / {:.1f}", traced, paper);
  };
  fmt::print(
      "{:<5} {:>15} {:>17} {:>15} {:>13} {:>13} {:>13} {:>11} {:>10.2f} {:>6.2f} {:>10.3f} "
      "{:>6.3f}\n",
      m.name, pair(gib(row.state), m.state_gib), pair(gib(row.none), m.activations_gib),
      pair(gib(row.reduced), m.reduced_gib), shares(percent(row, row.sequence), m.sequence_percent),
      shares(percent(row, row.selective), m.selective_percent),
      shares(percent(row, row.reduced), m.reduced_percent),
      shares(percent(row, row.full), m.full_percent), gib(row.embedding_state), gib(row.head_state),
      gib(row.embedding_activations), gib(row.head_activations));
}

}  // namespace

int print_paper_plan(bool json) {
  const device::Target target{device::DeviceKind::cpu, device::detect_isa(), 1};
  nlohmann::ordered_json rows;
  if (!json) {
    fmt::print(
        "Memory of the rank that holds most, traced / in Korthikanti et al. 2022. GiB; shares in % "
        "of the activations without.\n\n{:<5} {:>15} {:>17} {:>15} {:>13} {:>13} {:>13} {:>11} "
        "{:>10} {:>6} {:>10} {:>6}\n",
        "", "layers: state", "activations", "SP + selective", "SP %", "selective %", "both %",
        "full %", "embedding", "head", "embedding", "head");
    fmt::print("{:>120} {:>6} {:>10} {:>6}\n", "state", "state", "activ.", "activ.");
  }
  for (const account::PaperModel& model : account::paper_models()) {
    const account::PaperRow row = account::paper_row(model, target);
    if (json) {
      rows.push_back(row_json(row));
    } else {
      print_row(row);
    }
  }
  if (json) print_json({{"rows", rows}});
  return 0;
}

}  // namespace megalith::apps
