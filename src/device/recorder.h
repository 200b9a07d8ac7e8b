// SPDX-License-Identifier: Apache-2.0
// What was run: one record per kernel or collective and place in the model, with its necessary
// work. The trace kind fills it instead of computing; on a real device it adds measured time, and
// keeps single events if asked, for a timeline.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "device/work.h"

namespace megalith::device {

struct Record {
  std::string name;   // "linear_forward", "all_reduce"
  std::string scope;  // "layers.3.mlp", the innermost Scope
  int64_t calls = 0;
  Work work;
  double seconds = 0;  // without those of kernels inside; 0 when traced
};

/// One call, on the clock of monotonic_seconds().
struct Event {
  size_t record = 0;  // index in records()
  double begin = 0;
  double seconds = 0;  // with those of kernels inside
};

/// Accumulates by (name, scope), in order of first appearance.
class Recorder {
 public:
  /// A call that began at `begin` and took `seconds`; nothing ran inside it.
  void add(std::string_view name, const Work& work, double begin, double seconds);
  /// The same of a call that others may have run inside: those added since the matching open().
  void open() { inside_.push_back(0); }
  void close(std::string_view name, const Work& work, double begin, double seconds);

  const std::vector<Record>& records() const { return records_; }
  Work total() const;
  void clear();

  /// From now on single calls are kept, too.
  void keep_events() { keeps_events_ = true; }
  const std::vector<Event>& events() const { return events_; }

  void push_scope(std::string_view name);
  void pop_scope();
  /// The scopes open now, joined by dots.
  const std::string& scope() const { return scope_; }

 private:
  void enter(std::string_view name, const Work& work, double begin, double seconds, double inside);
  std::vector<Record> records_;
  std::map<std::pair<std::string, std::string>, size_t, std::less<>> index_;
  std::vector<Event> events_;
  std::vector<double> inside_;  // seconds of the calls inside each open one
  std::string scope_;
  std::vector<size_t> scope_ends_;
  bool keeps_events_ = false;
};

}  // namespace megalith::device
