// SPDX-License-Identifier: Apache-2.0
// What one kernel takes on a device of a cluster: the roofline (Williams, Waterman & Patterson
// 2009) with the efficiency that was measured or fitted, and its launch.
#pragma once

#include "clusters/cluster.h"

namespace megalith::costs {

/// `count` products of [rows, depth] by [depth, columns].
struct Product {
  double rows = 0;
  double columns = 0;
  double depth = 0;
  double count = 1;
  double flops() const { return 2 * rows * columns * depth * count; }
};

class DeviceTime {
 public:
  /// `wide`: the type of products that are not in 8 bits. UserError when the cluster file has no
  /// rate of them. `cluster` must outlive this.
  DeviceTime(const clusters::Cluster& cluster, clusters::ProductType wide, bool has_fp8);

  /// Seconds; the operands are of the wide type or, `fp8`, of 8 bits with wide results.
  double product(const Product& product, bool fp8 = false) const;
  /// Of an elementwise kernel, or one of rows, that reads and writes that many bytes.
  double stream(double bytes) const;
  /// Streaming attention over pairs of tokens that take so many operations. UserError without a
  /// rate.
  double attention(double flops, double sequence, bool backward) const;

  const clusters::Cluster& cluster() const { return cluster_; }
  double element_bytes() const { return element_bytes_; }
  double peak(bool fp8) const { return (fp8 ? narrow_ : wide_)->peak; }

 private:
  const clusters::Cluster& cluster_;
  const clusters::ProductRate* wide_;
  const clusters::ProductRate* narrow_ = nullptr;
  double element_bytes_;
  double bandwidth_;
};

}  // namespace megalith::costs
