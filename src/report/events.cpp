// SPDX-License-Identifier: Apache-2.0
// The name of the file and its first record are what TensorBoard looks for: it lists files that
// contain "tfevents" and reads them in the order of their names.
#include "report/events.h"

#include <unistd.h>

#include "base/error.h"
#include "base/host.h"
#include "base/log.h"

namespace megalith::report {

namespace fs = std::filesystem;

namespace {

constexpr size_t kFlushBytes = size_t{1} << 16;

fs::path new_name(const fs::path& folder, double wall) {
  const std::string stem = fmt::format("events.out.tfevents.{:010d}.{}.{}.",
                                       static_cast<int64_t>(wall), host_name(), getpid());
  for (int counter = 0;; ++counter) {
    fs::path path = folder / (stem + std::to_string(counter));
    if (!fs::exists(path)) return path;
  }
}

}  // namespace

EventWriter EventWriter::create(const fs::path& folder, double wall) {
  EventWriter writer(AppendFile(new_name(folder, wall)));
  writer.begin(wall);
  return writer;
}

EventWriter EventWriter::reopen(const fs::path& path, int64_t position, double wall) {
  if (position > 0 && fs::exists(path)) {
    const EventFile file = read_events(path);
    bool boundary = false;
    for (const Event& event : file.events) boundary = boundary || event.end == position;
    if (!boundary && fs::file_size(path) >= static_cast<uintmax_t>(position)) {
      throw IntegrityError(
          "{}: byte {}, where the checkpoint saw the end of an event, is not one (undamaged up to "
          "byte {}); put the file back, or start in a new folder",
          path.string(), position, file.whole_bytes);
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

EventFile read_events(const fs::path& path) {
  const std::string content = read_file(path);
  EventFile file;
  std::string_view rest = content;
  while (!rest.empty()) {
    std::optional<Event> event = decode_record(rest);
    if (!event) break;
    rest.remove_prefix(static_cast<size_t>(event->end));
    file.whole_bytes += event->end;
    event->end = file.whole_bytes;
    file.events.push_back(std::move(*event));
  }
  file.torn = !rest.empty();
  return file;
}

int64_t event_position_after(const fs::path& path, int64_t step) {
  int64_t position = 0;
  for (const Event& event : read_events(path).events) {
    if (event.step > step) break;
    position = event.end;
  }
  return position;
}

}  // namespace megalith::report
