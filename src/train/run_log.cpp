// SPDX-License-Identifier: Apache-2.0
#include "train/run_log.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_number.h"

namespace megalith::train {
nlohmann::json to_json(const LogPositions& p) {
  return {{"metrics", p.metrics},
          {"samples", p.samples},
          {"events_file", p.events_file},
          {"events", p.events}};
}

LogPositions log_positions_from(const nlohmann::json& json) {
  try {
    const char* const where = "checkpoint: log positions";
    LogPositions p{whole_number(json, "metrics", where), whole_number(json, "samples", where),
                   json.at("events_file").get<std::string>(), whole_number(json, "events", where)};
    if (!report::is_event_file(p.events_file)) {
      throw IntegrityError("checkpoint: the event file's name '{}' is not one", p.events_file);
    }
    return p;
  } catch (const nlohmann::json::exception& error) {
    throw IntegrityError("checkpoint: log positions: {}", error.what());
  }
}

RunLog::RunLog(const std::filesystem::path& folder, const LogPositions& positions)
    : metrics_(folder / "metrics.jsonl", positions.metrics),
      samples_(folder / "samples.jsonl", positions.samples),
      events_(report::EventWriter::reopen(folder / positions.events_file, positions.events)) {}

namespace {

void write_compared(const std::optional<report::ComparedMeans>& means, std::string_view behind,
                    int64_t step, report::EventWriter& events) {
  for (size_t i = 0; means && i < means->size(); ++i)
    events.scalar(fmt::format("{}{}", report::kComparedNames[i], behind), step, (*means)[i]);
}

}  // namespace

void RunLog::step(const report::StepMetrics& m) {
  metrics_.append(m);
  events_.scalar(m.compared ? "preference loss" : "lm loss", m.step, m.token_loss());
  write_compared(m.compared, "", m.step, events_);
  write_compared(m.validation_compared, " validation", m.step, events_);
  for (const auto& [name, value] : {std::pair{"fp8 loss difference", m.fp8_loss_difference},
                                    {"fp8 gradient cosine", m.fp8_gradient_cosine},
                                    {"fp8 saturated", m.fp8_saturated},
                                    {"fp8 flushed", m.fp8_flushed},
                                    {"fp8 products in 16 bits", m.fp8_products_in_16_bits}}) {
    if (value) events_.scalar(name, m.step, *value);
  }
  if (m.loss_scale) events_.scalar("loss-scale", m.step, *m.loss_scale);
  if (m.overflowed_steps) events_.scalar("overflowed-steps", m.step, *m.overflowed_steps);
  if (m.pair_loss) events_.scalar("sentence pair loss", m.step, *m.pair_loss);
  events_.scalar("learning-rate", m.step, m.lr);
  events_.scalar("grad-norm", m.step, m.grad_norm);
  events_.scalar("iteration-time", m.step, m.step_seconds);
  events_.scalar("tokens-per-second", m.step, m.tokens_per_second);
  events_.scalar("mfu", m.step, m.mfu);
  events_.scalar("consumed-samples", m.step, static_cast<double>(m.samples));
  events_.scalar("mem-max-allocated-bytes", m.step, static_cast<double>(m.memory_bytes));
  if (m.validation_pair_loss)
    events_.scalar("sentence pair loss validation", m.step, *m.validation_pair_loss);
  if (m.compared && m.validation_loss) {
    events_.scalar("preference loss validation", m.step, *m.validation_loss);
  } else if (const std::optional<double> loss = m.validation_token_loss()) {
    events_.scalar("lm loss validation", m.step, *loss);
    events_.scalar("lm loss validation ppl", m.step, std::exp(std::min(20.0, *loss)));
  }
  for (const auto& [name, value] : m.validation_scores)
    events_.scalar("validation " + name, m.step, value);
  for (const auto& [name, value] : m.validation_task_losses)
    events_.scalar("lm loss validation/" + name, m.step, value);
  events_.flush();
}

void RunLog::sample(const report::TextSample& sample) {
  samples_.append(sample);
  events_.text("sample", sample.step, sample.prompt + sample.text);
  events_.flush();
}

LogPositions RunLog::sync() {
  metrics_.sync();
  samples_.sync();
  const int64_t events = events_.position();
  events_.sync();
  return {metrics_.position(), samples_.position(), events_.path().filename().string(), events};
}

}  // namespace megalith::train
