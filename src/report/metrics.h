// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl: one JSON object per training step, in order, each step once. A line is written
// whole when its step ends. A resume cuts the file back to the position that the checkpoint
// recorded and leaves the kept lines byte-identical. Loss and gradient norm are also written as
// hexadecimal floats, so that runs can be compared to the bit. JSON has no NaN or infinity: such a
// number is written as null, and its hexadecimal twin says which it was.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "report/append_file.h"

namespace megalith::report {

/// Means over the pairs of answers that a step compares, as TRL calls them.
inline constexpr std::array<std::string_view, 6> kComparedNames = {
    "rewards/chosen",     "rewards/rejected", "rewards/margins",
    "rewards/accuracies", "logps/chosen",     "logps/rejected"};
inline constexpr size_t kRewardMargin = 2, kRewardAccuracy = 3;
using ComparedMeans = std::array<double, kComparedNames.size()>;

using NamedValues = std::vector<std::pair<std::string, double>>;

/// What a step reports. A double that is unknown is NaN (null in the file).
struct StepMetrics {
  int64_t step = 0;                 // from 1
  int64_t tokens = 0;               // seen since the run began, this step included
  int64_t samples = 0;              // likewise
  double loss = 0;                  // mean over the step's weighted tokens, before the update
  double lr = 0;                    // learning rate of the step
  double grad_norm = 0;             // before clipping
  double step_seconds = 0;          // wall time of the step
  double tokens_per_second = 0;     // of the step
  double mfu = 0;                   // share of the machine's matrix-product ceiling, 0 to 1
  int64_t memory_bytes = 0;         // high-water mark of the arenas
  std::optional<double> pair_loss;  // of the loss, what sentence pairs have; likewise below
  std::optional<double> validation_loss, validation_pair_loss;
  /// Of a validation of classes, numbers or answers to questions, by name (metrics::Scores).
  NamedValues validation_scores;
  /// Of a validation of several tasks: the loss of each that it has tokens of, by name.
  NamedValues validation_task_losses;
  // What the step's losses were multiplied by (precision.compute: f16), and the steps that changed
  // nothing because gradients overflowed, this one included.
  std::optional<double> loss_scale, overflowed_steps;
  // Of a check of products in 8 bits before the step (engine::Engine::check_fp8): how far losses
  // lie apart, relative; the cosine of the gradients; the largest shares of an operand; how many
  // products run in 16 bits instead.
  std::optional<double> fp8_loss_difference, fp8_gradient_cosine, fp8_saturated, fp8_flushed,
      fp8_products_in_16_bits;
  std::optional<ComparedMeans> compared, validation_compared;

  /// Of tokens alone: what a perplexity is of. Of answers that are compared it is none.
  double token_loss() const { return loss - pair_loss.value_or(0); }
  std::optional<double> validation_token_loss() const {
    if (!validation_loss) return std::nullopt;
    return *validation_loss - validation_pair_loss.value_or(0);
  }

  /// One line with its '\n'. Keys are in the order above, those of named values last; loss and
  /// grad_norm are each followed by their hexadecimal twin.
  std::string to_json_line() const;
  /// Reads such a line, with or without '\n'. Unknown keys are ignored. IntegrityError (without a
  /// path) if it is not one.
  static StepMetrics parse(std::string_view line);
};

/// Appends to metrics.jsonl.
class MetricsLog {
 public:
  /// Keeps the first `position` bytes of `path`, which must be whole lines, and appends after them.
  explicit MetricsLog(const std::filesystem::path& path, int64_t position = 0)
      : file_(open_lines(path, position)) {}
  /// One write() call.
  void append(const StepMetrics& metrics) { file_.append(metrics.to_json_line()); }
  /// Bytes written so far: what a checkpoint records, after `sync`.
  int64_t position() const { return file_.position(); }
  void sync() { file_.sync(); }

 private:
  AppendFile file_;
};

/// Calls `visit` for each whole line of a metrics.jsonl, with one in memory at a time; a torn last
/// line is ignored. UserError if the file is absent; IntegrityError naming file and line if a line
/// is damaged or longer than any genuine one, or if steps do not increase.
void visit_metrics(const std::filesystem::path& path, FunctionRef<void(const StepMetrics&)> visit);
/// All lines; and the last one, if there is any.
std::vector<StepMetrics> read_metrics(const std::filesystem::path& path);
std::optional<StepMetrics> last_metrics(const std::filesystem::path& path);

}  // namespace megalith::report
