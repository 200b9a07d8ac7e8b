// SPDX-License-Identifier: Apache-2.0
// Plain functions from the record to HTML; all text from the run goes through escape_html.
#include "report/sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/chart_data.h"
#include "report/hex_float.h"
#include "report/html.h"
#include "report/quantity.h"

namespace megalith::report {

namespace {

/// A table row; nothing if there is no value.
std::string row(std::string_view name, const std::optional<std::string>& value) {
  if (!value || value->empty()) return "";
  return fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", escape_html(name),
                     escape_html(*value));
}

std::string tile(std::string_view name, const std::string& value, const std::string& detail) {
  return fmt::format(
      "<div class=\"tile\"><div class=\"name\">{}</div><div class=\"value\">{}</div>"
      "<div class=\"detail\">{}</div></div>\n",
      escape_html(name), escape_html(value), escape_html(detail));
}

std::string decimal(double value) {
  return std::isfinite(value) ? fmt::format("{:.4f}", value) : hex_float(value);
}

std::string compared_rows(std::string_view before, const ComparedMeans& means) {
  std::string out;
  for (size_t i = 0; i < means.size(); ++i)
    out += row(fmt::format("{}{}", before, kComparedNames[i]), decimal(means[i]));
  return out;
}

/// The median of what `pick` gives for the steps, unknown ones left out; NaN if none is known.
template <typename Pick>
double median(const std::vector<StepMetrics>& steps, Pick pick) {
  std::vector<double> values;
  for (const StepMetrics& step : steps) {
    if (std::isfinite(pick(step))) values.push_back(pick(step));
  }
  if (values.empty()) return NAN;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The run's own account of its wall time, or the sum of its steps.
double wall_time(const RunRecord& record) {
  if (const auto seconds = record.number("/seconds")) return *seconds;
  double sum = 0;
  for (const StepMetrics& step : record.steps) {
    if (std::isfinite(step.step_seconds)) sum += step.step_seconds;
  }
  return sum;
}

std::optional<std::string> bytes_text(const std::optional<int64_t>& bytes) {
  if (!bytes) return std::nullopt;
  return fmt::format("{} ({} bytes)", human_bytes(*bytes), grouped(*bytes));
}

/// Steps that a loss scale skipped are said elsewhere: their norms are no fault.
std::vector<StepMetrics> not_overflowed(const std::vector<StepMetrics>& steps) {
  std::vector<StepMetrics> rest;
  double before = 0;
  for (const StepMetrics& step : steps) {
    const double count = step.overflowed_steps.value_or(before);
    if (count <= before) rest.push_back(step);
    before = count;
  }
  return rest;
}

std::string notice_for(const std::vector<StepMetrics>& steps, std::string_view what,
                       double StepMetrics::*member) {
  const auto bad = [member](const StepMetrics& step) { return !std::isfinite(step.*member); };
  const auto count = std::count_if(steps.begin(), steps.end(), bad);
  if (count == 0) return "";
  const int64_t first = std::find_if(steps.begin(), steps.end(), bad)->step;
  return fmt::format(
      "<p class=\"notice\">At {} {} the {} was not a finite number, first at step {}; "
      "the curves leave such steps out.</p>\n",
      grouped(count), count == 1 ? "step" : "steps", what, grouped(first));
}

/// Of a loss scale that was too large: an ordinary event, unlike the others.
std::string overflow_notice(const std::vector<StepMetrics>& steps) {
  if (steps.empty() || steps.back().overflowed_steps.value_or(0) == 0) return "";
  const double count = *steps.back().overflowed_steps;
  return fmt::format(
      "<p class=\"notice\">{} {} skipped: gradients overflowed under the loss scale.</p>\n",
      grouped(static_cast<int64_t>(count)), count == 1 ? "step was" : "steps were");
}

}  // namespace

std::string run_title(const RunRecord& record, const std::string& folder_name) {
  const auto name = record.text("/name");
  return name && !name->empty() ? *name : folder_name;
}

std::string started_html(const RunRecord& record) {
  const auto started = record.text("/started");
  return started ? fmt::format(" &middot; started {}", escape_html(*started)) : "";
}

std::string header_html(const RunRecord& record) {
  std::string out;
  if (const auto status = record.text("/status")) {
    out += fmt::format("<span class=\"status\" data-status=\"{0}\">{0}</span>\n",
                       escape_html(*status));
  }
  auto chip = [&out](const std::string& text) {
    if (!text.empty()) out += fmt::format("<span class=\"chip\">{}</span>\n", escape_html(text));
  };
  chip(record.model);
  if (const auto count = record.integer("/parameters")) {
    chip(human_count(static_cast<double>(*count)) + " parameters");
  }
  chip(record.text("/machine/cpu").value_or(""));
  if (const auto threads = record.integer("/machine/threads")) {
    chip(fmt::format("{} {}", *threads, *threads == 1 ? "thread" : "threads"));
  }
  return out;
}

std::string notices_html(const RunRecord& record) {
  return overflow_notice(record.steps) + notice_for(record.steps, "loss", &StepMetrics::loss) +
         notice_for(not_overflowed(record.steps), "gradient norm", &StepMetrics::grad_norm);
}

std::string tiles_html(const RunRecord& record) {
  const std::vector<StepMetrics>& steps = record.steps;
  std::string out;
  if (!steps.empty()) {
    const StepMetrics& last = steps.back();
    out += tile("Final loss", decimal(last.loss), fmt::format("at step {}", grouped(last.step)));
    const StepMetrics* best = nullptr;
    for (const StepMetrics& step : steps) {
      const bool known = step.validation_loss && std::isfinite(*step.validation_loss);
      if (known && (best == nullptr || *step.validation_loss < *best->validation_loss))
        best = &step;
    }
    if (best != nullptr) {
      out += tile("Best validation loss", decimal(*best->validation_loss),
                  fmt::format("at step {}", grouped(best->step)));
    }
    out += tile("Tokens", human_count(static_cast<double>(last.tokens)),
                fmt::format("{} samples", grouped(last.samples)));
    const double speed = median(steps, [](const StepMetrics& m) { return m.tokens_per_second; });
    if (std::isfinite(speed)) out += tile("Throughput", human_count(speed), "tokens/s (median)");
    const double mfu = median(steps, [](const StepMetrics& m) { return m.mfu; });
    if (std::isfinite(mfu)) {
      const auto ceiling = record.number("/gemm_ceiling_gflops");
      out += tile("Utilisation", fmt::format("{:.1f} %", 100 * mfu),
                  ceiling ? fmt::format("of {:.0f} GFLOP/s", *ceiling) : "median step");
    }
  }
  out += tile("Wall time", human_seconds(wall_time(record)),
              fmt::format("{} {}", grouped(static_cast<int64_t>(steps.size())),
                          steps.size() == 1 ? "step" : "steps"));
  if (const auto peak = record.integer("/memory/measured/total")) {
    out += tile("Peak memory", human_bytes(*peak), "in arenas");
  }
  return out;
}

std::string memory_html(const RunRecord& record) {
  std::string out;
  for (const std::string& name : memory_classes(record)) {
    const auto planned = record.integer("/memory/planned/" + name);
    const auto measured = record.integer("/memory/measured/" + name);
    auto cell = [](const std::optional<int64_t>& bytes) {
      if (!bytes) return std::string("<td class=\"number\">&ndash;</td>");
      return fmt::format("<td class=\"number\">{}<small>{}</small></td>", human_bytes(*bytes),
                         grouped(*bytes));
    };
    std::string difference = "<td class=\"number\">&ndash;</td>";
    if (planned && measured) {
      const int64_t bytes = *measured - *planned;
      difference = bytes == 0 ? "<td class=\"number equal\">exact</td>"
                              : fmt::format("<td class=\"number differs\">{}{}</td>",
                                            bytes > 0 ? "+" : "", grouped(bytes));
    }
    out += fmt::format("<tr{}><th scope=\"row\">{}</th>{}{}{}</tr>\n",
                       name == "total" ? " class=\"total\"" : "", escape_html(name), cell(planned),
                       cell(measured), difference);
  }
  return out;
}

std::string numbers_html(const RunRecord& record) {
  if (record.steps.empty()) return row("steps", "0");
  const StepMetrics& last = record.steps.back();
  std::string out = row("step", grouped(last.step));
  out += row("tokens", grouped(last.tokens));
  out += row("samples", grouped(last.samples));
  out += row("loss", decimal(last.loss));
  out += row("loss, exact", hex_float(last.loss));
  if (last.compared) out += compared_rows("", *last.compared);
  for (auto step = record.steps.rbegin(); step != record.steps.rend(); ++step) {
    if (!step->validation_loss) continue;
    out += row("validation loss", decimal(*step->validation_loss));
    if (step->validation_compared) {
      out += compared_rows("validation ", *step->validation_compared);
    } else if (step->validation_scores.empty()) {
      out += row("validation perplexity", decimal(std::exp(*step->validation_token_loss())));
    }
    for (const auto& [name, value] : step->validation_scores)
      out += row("validation " + name, decimal(value));
    for (const auto& [name, value] : step->validation_task_losses)
      out += row("validation loss of " + name, decimal(value));
    break;
  }
  out += row("learning rate", fmt::format("{:.4g}", last.lr));
  out += row("gradient norm", decimal(last.grad_norm));
  out += row("gradient norm, exact", hex_float(last.grad_norm));
  if (last.loss_scale) {
    out += row("loss scale", fmt::format("{}", *last.loss_scale));
    out += row("steps skipped for overflows", fmt::format("{}", last.overflowed_steps.value_or(0)));
  }
  out += row("seconds of the last step", fmt::format("{:.4f}", last.step_seconds));
  out += row("memory in arenas", bytes_text(last.memory_bytes));
  return out;
}

std::string provenance_html(const RunRecord& record) {
  auto count = [&](std::string_view pointer) -> std::optional<std::string> {
    const auto value = record.integer(pointer);
    return value ? std::optional(grouped(*value)) : std::nullopt;
  };
  std::string out = row("version", record.text("/version"));
  const auto seed = record.integer("/seed");
  out += row("seed", seed ? std::optional(fmt::format("{}", *seed)) : std::nullopt);
  out += row("parameters", count("/parameters"));
  out += row("started", record.text("/started"));
  out += row("host", record.text("/machine/host"));
  out += row("CPU", record.text("/machine/cpu"));
  out += row("threads", count("/machine/threads"));
  out += row("memory of the machine", bytes_text(record.integer("/machine/memory_bytes")));
  const auto ceiling = record.number("/gemm_ceiling_gflops");
  out += row("matrix-product ceiling",
             ceiling ? std::optional(fmt::format("{:.1f} GFLOP/s", *ceiling)) : std::nullopt);
  out += row("recipe fingerprint", record.text("/recipe_fingerprint"));
  out += row("data fingerprint", record.text("/data_fingerprint"));
  out += row("state SHA-256", record.text("/state_sha256"));
  return out;
}

}  // namespace megalith::report
