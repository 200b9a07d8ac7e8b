// SPDX-License-Identifier: Apache-2.0
// A TensorBoard event file: one per run, written by one process, read back by tests and by a resume
// that cuts it back. TensorBoard stops at a torn tail and tries again later, so appending and
// flushing is safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/function_ref.h"
#include "report/append_file.h"
#include "report/event_record.h"

namespace megalith::report {

/// `events.out.tfevents.<seconds>.<host>.<pid>.<counter>`, a name that is not taken in `folder`.
std::string new_event_file(const std::filesystem::path& folder, double wall = wall_seconds());
/// True for names that TensorBoard or this program would give such a file.
bool is_event_file(std::string_view name);

class EventWriter {
 public:
  /// A new file of `new_event_file`'s name in `folder`, which must exist.
  static EventWriter create(const std::filesystem::path& folder, double wall = wall_seconds());
  /// Keeps the first `position` bytes of `path` and appends after them. IntegrityError unless these
  /// are whole, undamaged records. Position 0 begins the file anew.
  static EventWriter reopen(const std::filesystem::path& path, int64_t position,
                            double wall = wall_seconds());
  ~EventWriter();
  EventWriter(EventWriter&&) = default;
  EventWriter& operator=(EventWriter&&) = delete;

  /// Buffered until `flush` (or until some 64 KiB have gathered).
  void scalar(std::string_view tag, int64_t step, double value, double wall = wall_seconds());
  /// For TensorBoard's text page, which renders it as Markdown.
  void text(std::string_view tag, int64_t step, std::string_view text,
            double wall = wall_seconds());
  /// Hands the buffer to the operating system, in one write() call.
  void flush();
  /// Flushes and returns the length of the file: what a checkpoint records, after `sync`.
  int64_t position();
  /// Flushes and fsyncs.
  void sync();
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  explicit EventWriter(AppendFile file) : file_(std::move(file)) {}
  void add(const Event& event);
  void begin(double wall);  // the version record

  AppendFile file_;
  std::string buffer_;
};

struct EventFile {
  std::vector<Event> events;
  int64_t whole_bytes = 0;  // up to the end of the last undamaged record
  bool torn = false;        // something follows that is not a whole record
};

/// Where reading ended.
struct EventScan {
  int64_t whole_bytes = 0;  // up to the end of the last undamaged record that was given
  bool torn = false;        // something follows
};
/// Calls `visit` for each record, with one in memory at a time, until it returns false, a record is
/// torn or damaged, or the file ends.
EventScan visit_events(const std::filesystem::path& path, FunctionRef<bool(const Event&)> visit);

/// All records up to the end, or to the first that is torn or damaged.
EventFile read_events(const std::filesystem::path& path);

/// Where to cut the file so that only the version record and events of steps <= `step` remain.
int64_t event_position_after(const std::filesystem::path& path, int64_t step);

}  // namespace megalith::report
