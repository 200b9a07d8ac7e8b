// SPDX-License-Identifier: Apache-2.0
#include "train/finished.h"

#include "checkpoint/kept_checkpoints.h"
#include "checkpoint/reader.h"
#include "checkpoint/step_folders.h"
#include "train/deferred_work.h"
#include "train/position.h"
#include "train/resume_check.h"
#include "train/run_checkpoints.h"
#include "train/run_folder.h"
#include "train/run_inputs.h"
#include "train/run_record.h"

namespace megalith::train {
namespace {

namespace fs = std::filesystem;

/// The newest step folder, opened. Nothing when there is none, or when it is damaged: then the
/// resume says so and goes on from an older one.
std::optional<checkpoint::Reader> newest_of(const fs::path& checkpoints,
                                            const checkpoint::AtWork& at_work) {
  const checkpoint::StepFolders steps = checkpoint::step_folders(checkpoints);
  if (steps.empty()) return std::nullopt;
  try {
    return checkpoint::open_own_step(steps.begin()->second, at_work);
  } catch (const IntegrityError&) {
    return std::nullopt;
  }
}

bool is_whole(const checkpoint::Reader& reader) {
  try {
    reader.verify_all();
    return true;
  } catch (const IntegrityError&) {
    return false;
  }
}

/// Whether nothing is there that a start takes away: what a crash left, checkpoints that a save had
/// no time to remove, lines of steps behind the last save.
bool is_tidy(const fs::path& run, const Position& position,
             const config::CheckpointSection& recipe) {
  const fs::path checkpoints = run / "checkpoints";
  if (has_leftovers(run) || !checkpoint::is_clean(checkpoints) ||
      !checkpoint::superfluous_checkpoints(checkpoints, position.step, kept_by(recipe)).empty())
    return false;
  const auto ends_at = [&](const fs::path& file, int64_t bytes) {
    std::error_code error;
    return fs::is_regular_file(fs::symlink_status(file, error)) &&
           fs::file_size(file, error) == static_cast<uintmax_t>(bytes);
  };
  return ends_at(run / "metrics.jsonl", position.logs.metrics) &&
         ends_at(run / "samples.jsonl", position.logs.samples) &&
         ends_at(run / position.logs.events_file, position.logs.events);
}

std::optional<report::StepMetrics> look(const config::Recipe& recipe,
                                        const engine::Settings& settings,
                                        const data::BatchSource& source,
                                        const text::Tokenizer* tokenizer, const std::string& base,
                                        std::span<const std::string> allow,
                                        const checkpoint::AtWork& at_work) {
  const fs::path folder = recipe.run.out;
  const auto reader = newest_of(folder / "checkpoints", at_work);
  if (!reader) return std::nullopt;
  const Position position = position_from(reader->state());
  const guards::BestValidation best = best_of(*reader);
  if (!is_tidy(folder, position, recipe.checkpoint)) return std::nullopt;
  RunRecord record(folder);
  if (record.damage() || !record.json().contains("recipe_fingerprint")) return std::nullopt;
  const RunLength length = run_length(recipe, settings, source.samples_per_epoch());
  const bool is_impatient = best.by() == settings::name_of(recipe.train.best_by) &&
                            best.gave_up(recipe.train.early_stopping);
  if ((!length.is_reached(position.step, position.elapsed_seconds) && !is_impatient) ||
      deferred_from(reader->state(), position.step) || !is_whole(*reader))
    return std::nullopt;
  check_resume(recipe, source, source.fingerprint(at_work), tokenizer, base, *reader, allow);
  const auto status = record.json().find("status");
  if (status == record.json().end() || *status != "finished") {
    record.json()["status"] = "finished";
    record.json()["state_sha256"] = reader->state_sha256();
    record.write();
  }
  return report::last_metrics(folder / "metrics.jsonl").value_or(report::StepMetrics{});
}

}  // namespace

std::optional<report::StepMetrics> finished_before(
    comm::Communicator& world, const config::Recipe& recipe, const engine::Settings& settings,
    const data::BatchSource& source, const text::Tokenizer* tokenizer, const std::string& base,
    std::span<const std::string> allow) {
  std::string line;
  if (world.rank() == 0) {
    const auto last =
        look(recipe, settings, source, tokenizer, base, allow, [&] { world.heartbeat(); });
    if (last) line = last->to_json_line();
  }
  line = world.exchange(line, "finished")[0];
  if (line.empty()) return std::nullopt;
  return report::StepMetrics::parse(line);
}

}  // namespace megalith::train
