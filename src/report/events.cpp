// SPDX-License-Identifier: Apache-2.0
// The name of the file and its first record are what TensorBoard looks for: it lists files that
// contain "tfevents" and reads them in the order of their names.
#include "report/events.h"

#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/folder.h"
#include "base/host.h"
#include "base/log.h"

namespace megalith::report {

namespace fs = std::filesystem;

namespace {

constexpr size_t kFlushBytes = size_t{1} << 16;
constexpr size_t kReadBytes = size_t{1} << 16;
// What a text sample may be at most, and more; a larger record is taken for damage.
constexpr int64_t kMostRecordBytes = int64_t{64} << 20;

constexpr std::string_view kPrefix = "events.out.tfevents.";

}  // namespace

std::string new_event_file(const fs::path& folder, double wall) {
  const std::string stem =
      fmt::format("{}{:010d}.{}.{}.", kPrefix, static_cast<int64_t>(wall), host_name(), getpid());
  for (int counter = 0;; ++counter) {
    std::string name = stem + std::to_string(counter);
    if (!fs::exists(fs::symlink_status(folder / name))) return name;
  }
}

bool is_event_file(std::string_view name) {
  return name.starts_with(kPrefix) && name.find('/') == std::string_view::npos;
}

EventWriter EventWriter::create(const fs::path& folder, double wall) {
  EventWriter writer(AppendFile(folder / new_event_file(folder, wall)));
  writer.begin(wall);
  return writer;
}

EventWriter EventWriter::reopen(const fs::path& path, int64_t position, double wall) {
  if (position > 0 && fs::exists(path)) {
    bool boundary = false;
    const EventScan scan = visit_events(path, [&](const Event& event) {
      boundary = event.end == position;
      return event.end < position;
    });
    if (!boundary && fs::file_size(path) >= static_cast<uintmax_t>(position)) {
      throw IntegrityError(
          "{}: byte {}, where the checkpoint saw the end of an event, is not one (undamaged up to "
          "byte {}); put the file back, or start in a new folder",
          path.string(), position, scan.whole_bytes);
    }
  }
  EventWriter writer(AppendFile(path, position));
  if (position == 0) writer.begin(wall);
  return writer;
}

EventWriter::~EventWriter() {
  if (!file_.is_open()) return;  // moved from
  try {
    flush();
  } catch (const Error& error) {
    log::error("{}", error.what());
  }
}

void EventWriter::begin(double wall) {
  Event event;
  event.wall = wall;
  event.file_version = "brain.Event:2";
  add(event);
  flush();
}

void EventWriter::scalar(std::string_view tag, int64_t step, double value, double wall) {
  add({wall, step, "", {{std::string(tag), static_cast<float>(value), std::nullopt}}, 0});
}

void EventWriter::text(std::string_view tag, int64_t step, std::string_view text, double wall) {
  add({wall, step, "", {{std::string(tag), std::nullopt, std::string(text)}}, 0});
}

void EventWriter::add(const Event& event) {
  buffer_ += encode_record(event);
  if (buffer_.size() >= kFlushBytes) flush();
}

void EventWriter::flush() {
  if (buffer_.empty()) return;
  file_.append(buffer_);
  buffer_.clear();
}

int64_t EventWriter::position() {
  flush();
  return file_.position();
}

void EventWriter::sync() {
  flush();
  file_.sync();
}

EventScan visit_events(const fs::path& path, FunctionRef<bool(const Event&)> visit) {
  require_regular(path);
  File file(path, File::Mode::read);
  std::string buffer;
  size_t begin = 0;
  // Has at least `bytes` behind `begin`, unless the file ends before.
  const auto ensure = [&](size_t bytes) {
    if (buffer.size() - begin >= bytes) return true;
    buffer.erase(0, begin);
    begin = 0;
    const size_t old = buffer.size();
    buffer.resize(std::max(bytes, old + kReadBytes));
    buffer.resize(old + file.read(buffer.data() + old, buffer.size() - old));
    return buffer.size() >= bytes;
  };
  EventScan scan;
  while (ensure(kRecordHeadBytes)) {
    const auto bytes = record_bytes(std::string_view(buffer).substr(begin));
    if (!bytes || *bytes > kMostRecordBytes || !ensure(static_cast<size_t>(*bytes))) break;
    std::optional<Event> event = decode_record(std::string_view(buffer).substr(begin));
    if (!event) break;
    begin += static_cast<size_t>(*bytes);
    scan.whole_bytes += *bytes;
    event->end = scan.whole_bytes;
    if (!visit(*event)) break;
  }
  scan.torn = scan.whole_bytes != file.size();
  return scan;
}

EventFile read_events(const fs::path& path) {
  EventFile file;
  const EventScan scan = visit_events(path, [&](const Event& event) {
    file.events.push_back(event);
    return true;
  });
  file.whole_bytes = scan.whole_bytes;
  file.torn = scan.torn;
  return file;
}

int64_t event_position_after(const fs::path& path, int64_t step) {
  int64_t position = 0;
  visit_events(path, [&](const Event& event) {
    if (event.step > step) return false;
    position = event.end;
    return true;
  });
  return position;
}

}  // namespace megalith::report
