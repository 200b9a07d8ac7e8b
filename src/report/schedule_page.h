// SPDX-License-Identifier: Apache-2.0
// A picture of a pipeline schedule: one row per stage, one bar per pass of a micro-batch, gaps
// where the stage is idle. Either an HTML page with an inline SVG and no script, or the same as a
// Chrome trace (trace_writer.h).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace megalith::report {

/// One forward or backward. Times in one unit of any kind.
struct ScheduleBar {
  int stage = 0;
  int micro_batch = 0;
  int chunk = 0;
  bool backward = false;
  double begin = 0;
  double end = 0;
};

struct SchedulePicture {
  std::string title;                // "1F1B, 4 stages, 8 micro-batches"
  std::vector<std::string> facts;   // lines under it
  std::vector<std::string> stages;  // a label each
  std::vector<ScheduleBar> bars;
};

/// The rows of the picture as SVG in a frame of kScheduleWidth by schedule_height(picture), for the
/// classes that kScheduleCss colours.
std::string schedule_rows(const SchedulePicture& picture);
inline constexpr double kScheduleWidth = 1600;
double schedule_height(const SchedulePicture& picture);
extern const char* const kScheduleCss;

/// The page. Every text is escaped.
std::string schedule_page(const SchedulePicture& picture);

/// Writes the page, or, if the path ends in ".json", the trace (one unit of time is a second
/// there).
void write_schedule(const SchedulePicture& picture, const std::filesystem::path& path);

}  // namespace megalith::report
