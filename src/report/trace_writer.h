// SPDX-License-Identifier: Apache-2.0
// A timeline in the Chrome trace format, for chrome://tracing and ui.perfetto.dev: a JSON array of
// events. By our convention a process is a rank, and a thread is one of its threads or streams.
// Times are seconds on any one clock. The caller opens the file, for example by write_file_durable,
// which gives it its name only when it is whole. Format: "Trace Event Format" of the Chromium
// project.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/file.h"

namespace megalith::report {

/// A detail shown when an event is clicked, or one series of a counter.
struct TraceArgument {
  std::string_view name;
  std::variant<int64_t, double, std::string_view> value;
};

class TraceWriter {
 public:
  /// Writes from `file`'s position on. The file outlives the writer.
  explicit TraceWriter(File& file) : file_(file) {}

  /// Names shown at the left; rows are sorted by `process` and `thread`.
  void process_name(int process, std::string_view name);
  void thread_name(int process, int thread, std::string_view name);

  /// An interval. Intervals of one thread must nest or be apart; any order of calls.
  void complete(int process, int thread, std::string_view category, std::string_view name,
                double start_seconds, double duration_seconds,
                std::span<const TraceArgument> arguments = {});
  /// A moment.
  void instant(int process, int thread, std::string_view category, std::string_view name,
               double seconds);
  /// Values of the series of a counter from `seconds` on; drawn stacked.
  void counter(int process, std::string_view name, double seconds,
               std::span<const TraceArgument> series);

  /// Closes the array. Nothing may follow, and without it the last events are lost.
  void finish();

 private:
  void add(std::string_view event);

  File& file_;
  std::string buffer_ = "[\n";
  bool empty_ = true;
  bool finished_ = false;
};

}  // namespace megalith::report
