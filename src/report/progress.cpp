// SPDX-License-Identifier: Apache-2.0
#include "report/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>

namespace megalith::report {

std::string duration_text(double seconds) {
  const auto s = static_cast<int64_t>(std::max(0.0, seconds) + 0.5);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

namespace {

/// A terminal that is gone or a full disk behind it must not end a run, so errors are passed over.
void put(const std::string& text) { std::fputs(text.c_str(), stderr); }

std::string compared_text(const ComparedMeans& means) {
  return fmt::format("margin {:.3f}  accuracy {:.2f}", means[kRewardMargin],
                     means[kRewardAccuracy]);
}

/// The first few of them.
std::string task_losses_text(const NamedValues& losses) {
  constexpr size_t kShown = 6;
  std::string text;
  for (size_t i = 0; i < std::min(losses.size(), kShown); ++i)
    text += fmt::format("{}{} {:.4f}", i == 0 ? "" : ", ", losses[i].first, losses[i].second);
  if (losses.size() > kShown) text += fmt::format(", {} more", losses.size() - kShown);
  return text;
}

}  // namespace

Progress::Progress(const Options& options)
    : options_(options), terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (living_) std::fputc('\n', stderr);
}

std::string Progress::line(const StepMetrics& m, double elapsed) const {
  const bool timed = options_.budget_seconds > 0;
  const double left = timed
                          ? options_.budget_seconds - elapsed
                          : static_cast<double>(options_.total_steps - m.step) * seconds_per_step_;
  const std::string of = timed ? "" : fmt::format("/{}", options_.total_steps);
  std::string text = fmt::format("step {}{}  loss {:.4f}  lr {:.2e}  grad {:.3f}  {:.0f} tokens/s",
                                 m.step, of, m.loss, m.lr, m.grad_norm, m.tokens_per_second);
  if (m.loss_scale) text += fmt::format("  loss scale {}", *m.loss_scale);
  if (m.overflowed_steps.value_or(0) > 0) text += fmt::format("  skipped {}", *m.overflowed_steps);
  if (m.mfu > 0) text += fmt::format("  {:.0f}% of ceiling", 100 * m.mfu);
  if (m.compared) text += "  " + compared_text(*m.compared);
  if (m.validation_loss) text += fmt::format("  validation {:.4f}", *m.validation_loss);
  if (m.validation_compared) text += fmt::format(" ({})", compared_text(*m.validation_compared));
  if (!m.validation_task_losses.empty())
    text += fmt::format(" ({})", task_losses_text(m.validation_task_losses));
  for (const auto& [name, value] : m.validation_scores)
    text += fmt::format("  {} {:.4f}", name, value);
  return text + fmt::format("  {} left", duration_text(left));
}

void Progress::step(const StepMetrics& m, double elapsed) {
  seconds_per_step_ =
      seconds_per_step_ == 0 ? m.step_seconds : 0.9 * seconds_per_step_ + 0.1 * m.step_seconds;
  if (terminal_) {
    clear();
    put(line(m, elapsed));
    std::fflush(stderr);
    living_ = true;
    // A validation stays on the screen.
    if (m.validation_loss) {
      std::fputc('\n', stderr);
      living_ = false;
    }
  } else if (m.step % options_.log_every == 0 || m.step == options_.total_steps ||
             m.validation_loss) {
    put(line(m, elapsed) + "\n");
  }
}

void Progress::note(const std::string& text) {
  clear();
  put(text + "\n");
}

void Progress::clear() {
  if (living_) put("\r\033[K");
  living_ = false;
}

}  // namespace megalith::report
