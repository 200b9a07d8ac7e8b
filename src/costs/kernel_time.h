// SPDX-License-Identifier: Apache-2.0
// What traced kernels take on a machine whose kernels were measured one by one
// (clusters::KernelRate). Times are linear in calls, operations and bytes, so records of any number
// of layers can be summed before.
#pragma once

#include <set>
#include <span>
#include <string>

#include "clusters/cluster.h"
#include "costs/wire_time.h"
#include "device/recorder.h"

namespace megalith::costs {

/// Seconds of kernels, and of what goes between ranks.
struct RecordedTime {
  double kernels = 0;
  double wire = 0;
};

class KernelTime {
 public:
  /// `cluster` must outlive this; it has measured kernels.
  KernelTime(const clusters::Cluster& cluster, clusters::ProductType type)
      : cluster_(cluster), type_(type) {}

  /// Of one rank's records: kernels by their rates, with a launch for each call; collectives over
  /// the link that joins `group`. A kernel that was not measured takes what its operations take at
  /// the peak of products or its bytes at the bandwidth of memory, whichever is longer.
  RecordedTime of(std::span<const device::Record> records, const Group& group) const;

  /// The kernels among `records` that were not measured.
  std::set<std::string> not_measured(std::span<const device::Record> records) const;

 private:
  const clusters::Cluster& cluster_;
  clusters::ProductType type_;
};

/// Whether the record is of a call between ranks.
bool is_transfer(const device::Record& record);
/// Whether it is of the half of a transfer that the other half's record stands for, or of waiting.
bool is_waiting(const device::Record& record);

}  // namespace megalith::costs
