// SPDX-License-Identifier: Apache-2.0
#include "costs/device_time.h"

#include <algorithm>

#include "base/error.h"

namespace megalith::costs {

using clusters::ProductType;

DeviceTime::DeviceTime(const clusters::Cluster& cluster, ProductType wide, bool has_fp8)
    : cluster_(cluster),
      wide_(&cluster.known(wide)),
      narrow_(has_fp8 ? &cluster.known(ProductType::fp8) : nullptr),
      element_bytes_(wide == ProductType::f32 || wide == ProductType::tf32 ? 4 : 2),
      bandwidth_(cluster.device.bandwidth * cluster.device.bandwidth_share) {}

double DeviceTime::product(const Product& p, bool fp8) const {
  const clusters::ProductRate& rate = fp8 ? *narrow_ : *wide_;
  const double computing = p.flops() / (rate.peak * *rate.share) * (1 + rate.depth / p.depth);
  const double operand = fp8 ? 1 : element_bytes_;
  const double bytes =
      p.count * (operand * p.depth * (p.rows + p.columns) + element_bytes_ * p.rows * p.columns);
  return std::max(computing, bytes / bandwidth_) + cluster_.device.launch_seconds;
}

double DeviceTime::stream(double bytes) const {
  return bytes > 0 ? bytes / bandwidth_ + cluster_.device.launch_seconds : 0;
}

double DeviceTime::attention(double flops, double sequence, bool backward) const {
  const clusters::AttentionRate& rate = cluster_.device.attention;
  if (rate.forward == 0)
    throw UserError(
        "cluster {}: no rate of streaming attention is known of {}; measure it and give "
        "device.attention, or set model.attention: materialised",
        cluster_.name, cluster_.device.name);
  const double share = backward ? rate.backward : rate.forward;
  return flops / (wide_->peak * share) * (1 + rate.depth / sequence) +
         cluster_.device.launch_seconds;
}

}  // namespace megalith::costs
