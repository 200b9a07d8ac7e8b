// SPDX-License-Identifier: Apache-2.0
#include "costs/kernel_time.h"

#include <algorithm>

#include "comm/operation.h"

namespace megalith::costs {

bool is_waiting(const device::Record& record) {
  return record.name.starts_with("wait_") || record.name == "receive";
}

bool is_transfer(const device::Record& record) {
  using comm::OperationKind;
  for (int kind = 0; kind <= static_cast<int>(OperationKind::split); ++kind) {
    if (record.name == comm::name_of(static_cast<OperationKind>(kind))) return true;
  }
  return false;
}

RecordedTime KernelTime::of(std::span<const device::Record> records, const Group& group) const {
  const clusters::DeviceSection& device = cluster_.device;
  RecordedTime time;
  const bool is_several = group.ranks > 1;
  const double rate_between = is_several ? link_of(cluster_, group).rate : 1;
  const double latency = is_several ? cluster_.joining(group.span()).latency_seconds : 0;
  for (const device::Record& record : records) {
    const auto calls = static_cast<double>(record.calls);
    if (is_transfer(record)) {
      time.wire += calls * latency + static_cast<double>(record.work.bytes_wire) / rate_between;
      continue;
    }
    if (is_waiting(record)) continue;
    const auto bytes = static_cast<double>(record.work.bytes_read + record.work.bytes_written);
    time.kernels += calls * device.launch_seconds;
    if (const clusters::KernelRate* const rate = cluster_.find_kernel(record.name, type_)) {
      time.kernels += rate->seconds(calls, record.work.flops, bytes);
      continue;
    }
    const clusters::ProductRate& products = cluster_.known(type_);
    time.kernels += std::max(record.work.flops / (products.peak * *products.share),
                             bytes / (device.bandwidth * device.bandwidth_share));
  }
  return time;
}

std::set<std::string> KernelTime::not_measured(std::span<const device::Record> records) const {
  std::set<std::string> names;
  for (const device::Record& record : records) {
    if (is_transfer(record) || is_waiting(record)) continue;
    if (cluster_.find_kernel(record.name, type_) == nullptr) names.insert(record.name);
  }
  return names;
}

}  // namespace megalith::costs
