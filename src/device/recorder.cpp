// SPDX-License-Identifier: Apache-2.0
#include "device/recorder.h"

#include <utility>

namespace megalith::device {

void Recorder::enter(std::string_view name, const Work& work, double begin, double seconds,
                     double inside) {
  const auto key = std::pair(scope_, std::string(name));
  auto [it, inserted] = index_.try_emplace(key, records_.size());
  if (inserted) records_.push_back({std::string(name), scope_, 0, {}, 0});
  Record& record = records_[it->second];
  ++record.calls;
  record.work.flops += work.flops;
  record.work.bytes_read += work.bytes_read;
  record.work.bytes_written += work.bytes_written;
  record.work.bytes_wire += work.bytes_wire;
  record.seconds += seconds - inside;
  if (!inside_.empty()) inside_.back() += seconds;
  if (keeps_events_) events_.push_back({it->second, begin, seconds});
}

void Recorder::add(std::string_view name, const Work& work, double begin, double seconds) {
  enter(name, work, begin, seconds, 0);
}

void Recorder::close(std::string_view name, const Work& work, double begin, double seconds) {
  const double inside = inside_.back();
  inside_.pop_back();
  enter(name, work, begin, seconds, inside);
}

Work Recorder::total() const {
  Work sum;
  for (const Record& record : records_) {
    sum.flops += record.work.flops;
    sum.bytes_read += record.work.bytes_read;
    sum.bytes_written += record.work.bytes_written;
    sum.bytes_wire += record.work.bytes_wire;
  }
  return sum;
}

void Recorder::clear() {
  records_.clear();
  index_.clear();
  events_.clear();
}

void Recorder::push_scope(std::string_view name) {
  scope_ends_.push_back(scope_.size());
  if (!scope_.empty()) scope_ += '.';
  scope_ += name;
}

void Recorder::pop_scope() {
  scope_.resize(scope_ends_.back());
  scope_ends_.pop_back();
}

}  // namespace megalith::device
