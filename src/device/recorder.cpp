// SPDX-License-Identifier: Apache-2.0
#include "device/recorder.h"

#include <utility>

namespace megalith::device {

void Recorder::add(std::string_view name, const Work& work, double seconds) {
  const auto key = std::pair(scope_, std::string(name));
  auto [it, inserted] = index_.try_emplace(key, records_.size());
  if (inserted) records_.push_back({std::string(name), scope_, 0, {}, 0});
  Record& record = records_[it->second];
  ++record.calls;
  record.work.flops += work.flops;
  record.work.bytes_read += work.bytes_read;
  record.work.bytes_written += work.bytes_written;
  record.work.bytes_wire += work.bytes_wire;
  record.seconds += seconds;
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
