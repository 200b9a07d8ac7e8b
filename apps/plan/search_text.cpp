// SPDX-License-Identifier: Apache-2.0
#include "apps/plan/search_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "account/plan.h"

namespace megalith::apps {
namespace {

/// The parts of a step, in one order everywhere.
std::array<std::pair<const char*, double>, 6> parts_of(const costs::Breakdown& b) {
  return {{{"compute", b.compute},
           {"recompute", b.recompute},
           {"wire", b.wire},
           {"bubble", b.bubble},
           {"gradients", b.gradients},
           {"optimizer", b.optimizer}}};
}

double tokens_per_second(const SearchReport& r, const search::Candidate& c) {
  return static_cast<double>(r.settings.batch.full * r.settings.sequence_length()) / c.time.seconds;
}

}  // namespace

std::string ranking_header() {
  std::string text = fmt::format("     {:>9} {:>6} {:>7}", "s a step", "MFU %", "GiB");
  for (const auto& [name, seconds] : parts_of({}))
    text += fmt::format(" {:>9}", fmt::format("{} %", name).substr(0, 9));
  return text + "  layout\n";
}

std::string ranking_row(const search::Candidate& c) {
  std::string text =
      fmt::format("{:>9.4g}{}{:>6.1f} {:>7.1f}", c.expected_seconds(), c.measured ? "*" : " ",
                  100 * c.time.mfu * c.time.seconds / c.expected_seconds(), in_gib(c.memory_bytes));
  for (const auto& [name, seconds] : parts_of(c.time.parts))
    text += fmt::format(" {:>9.1f}", 100 * seconds / c.time.seconds);
  return text + "  " + c.point.text();
}

namespace {

std::string own_text(const SearchReport& r) {
  const search::SearchResult& result = r.result;
  if (result.own_place == 0) return "";
  const search::Candidate& best = result.best.front();
  if (best.point == result.own.point) return "\nThe recipe's own layout is the best.\n";
  return fmt::format(
      "\nThe recipe's own layout is number {}: {:.4g} s, {:.1f} % more than the best; for the best "
      "set {}\n  {}\n",
      result.own_place, result.own.expected_seconds(),
      100 * (result.own.expected_seconds() / best.expected_seconds() - 1),
      search::changes_text(result.own.point, best.point), ranking_row(result.own));
}

nlohmann::ordered_json layout_json(const search::LayoutPoint& p) {
  return {{"tensor", p.tensor},
          {"pipeline", p.pipeline},
          {"data", p.data},
          {"sequence", p.sequence},
          {"chunks", p.chunks},
          {"zero", p.zero},
          {"schedule", settings::name_of(p.schedule)},
          {"micro_batch", p.micro_batch},
          {"recompute", settings::name_of(p.recompute.mode)},
          {"recompute_layers", p.recompute.full_layers},
          {"compute", settings::name_of(p.compute)}};
}

}  // namespace

nlohmann::ordered_json candidate_json(const SearchReport& r, const search::Candidate& c) {
  nlohmann::ordered_json json;
  json["layout"] = layout_json(c.point);
  json["step_seconds"] = c.time.seconds;
  if (c.measured) json["measured_seconds"] = *c.measured;
  json["mfu"] = c.time.mfu;
  json["memory_bytes"] = c.memory_bytes;
  json["tokens_per_second"] = tokens_per_second(r, c);
  for (const auto& [name, seconds] : parts_of(c.time.parts)) json["parts"][name] = seconds;
  json["variants"] = c.variants;
  return json;
}

std::string search_text(const SearchReport& r) {
  const search::SearchResult& result = r.result;
  std::string text = fmt::format(
      "{} parameters, {} tokens a step, on {} of {}\n{} candidates judged in {:.1f} s: {} do not "
      "fit "
      "into {} a device; {} schedules run\n\n",
      r.settings.model.num_parameters(), r.settings.batch.full * r.settings.sequence_length(),
      result.devices, r.cluster.name, result.judged, result.seconds, result.refused,
      account::bytes_text(r.cluster.usable_memory()), result.simulated);
  text += ranking_header();
  for (size_t i = 0; i < result.best.size(); ++i)
    text += fmt::format("{:>3}. {}\n", i + 1, ranking_row(result.best[i]));
  text += own_text(r);
  if (!result.refusals.empty()) text += "\nNot among them:\n";
  for (const search::Refusal& refusal : result.refusals) {
    text += fmt::format("  {} x {}\n", refusal.count, refusal.reason);
    if (!refusal.mend.empty()) text += fmt::format("      {}\n", refusal.mend);
  }
  const bool has_measured = std::ranges::any_of(
      result.best, [](const search::Candidate& c) { return c.measured.has_value(); });
  text += has_measured
              ? "\n* measured, parts as they are predicted; the others predicted. It rests on:\n"
              : "\nPredicted, not measured. It rests on:\n";
  for (const std::string& line :
       costs::assumptions(r.cluster, search::settings_at(r.settings, result.best.front().point)))
    text += "  " + line + "\n";
  return text;
}

std::string search_csv(const SearchReport& r) {
  std::string text =
      "place,step_seconds,measured_seconds,mfu,memory_bytes,tokens_per_second,tensor,pipeline,data,"
      "sequence,chunks,"
      "zero,schedule,micro_batch,recompute,recompute_layers,compute";
  for (const auto& [name, seconds] : parts_of({})) text += fmt::format(",{}_seconds", name);
  text += "\n";
  for (size_t i = 0; i < r.result.best.size(); ++i) {
    const search::Candidate& c = r.result.best[i];
    const search::LayoutPoint& p = c.point;
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}", i + 1, c.time.seconds,
                        c.measured ? fmt::format("{}", *c.measured) : "", c.time.mfu,
                        c.memory_bytes, tokens_per_second(r, c), p.tensor, p.pipeline, p.data,
                        p.sequence, p.chunks, p.zero, settings::name_of(p.schedule), p.micro_batch,
                        settings::name_of(p.recompute.mode), p.recompute.full_layers,
                        settings::name_of(p.compute));
    for (const auto& [name, seconds] : parts_of(c.time.parts)) text += fmt::format(",{}", seconds);
    text += "\n";
  }
  return text;
}

nlohmann::ordered_json search_json(const SearchReport& r) {
  const search::SearchResult& result = r.result;
  nlohmann::ordered_json json;
  json["candidates"] = nlohmann::ordered_json::array();
  for (const search::Candidate& c : result.best) {
    json["candidates"].push_back(candidate_json(r, c));
    json["candidates"].back()["recipe"] =
        nlohmann::ordered_json::parse(config::to_json(search::recipe_at(r.recipe, c.point)));
  }
  json["refused"] = nlohmann::ordered_json::array();
  for (const search::Refusal& refusal : result.refusals)
    json["refused"].push_back(
        {{"reason", refusal.reason}, {"count", refusal.count}, {"mend", refusal.mend}});
  json["seconds"] = result.seconds;
  json["devices"] = result.devices;
  json["judged"] = result.judged;
  json["do_not_fit"] = result.refused;
  json["simulated"] = result.simulated;
  for (const search::Candidate& c : result.pareto) json["pareto"].push_back(candidate_json(r, c));
  if (result.own_place > 0) {
    json["own"] = candidate_json(r, result.own);
    json["own"]["place"] = result.own_place;
  }
  for (const search::Sensitivity& s : result.sensitivities)
    json["sensitivities"].push_back({{"change", s.change}, {"step_seconds", s.seconds}});
  json["assumptions"] =
      costs::assumptions(r.cluster, search::settings_at(r.settings, result.best.front().point));
  return json;
}

}  // namespace megalith::apps
