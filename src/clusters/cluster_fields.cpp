// SPDX-License-Identifier: Apache-2.0
// Every key of a cluster file, with its meaning and range.
#include "clusters/cluster.h"

namespace megalith::clusters {

using settings::above;
using settings::at_least;
using settings::between;
using settings::FieldVisitor;

namespace {

constexpr settings::Constraint kShare{.low = 0, .high = 1, .low_open = true};
// No device of any maker is within a thousand of these.
constexpr double kMostBytes = 1e15, kMostPerSecond = 1e20, kMostDevices = 1e7;

}  // namespace

void ProductRate::visit(FieldVisitor& v) {
  v.field("type", type, "operands");
  v.field("peak", peak, "operations per second, dense",
          settings::Constraint{.low = 0, .high = kMostPerSecond, .low_open = true});
  v.field("share", share, "of the peak that deep products reach; absent: not known", kShare);
  v.field("depth", depth, "inner dimension at which half of that is lost", between(0, 1e6));
}

void AttentionRate::visit(FieldVisitor& v) {
  v.field("forward", forward, "share of the 16-bit peak in long sequences; 0: not known",
          between(0, 1));
  v.field("backward", backward, "the same of backward", between(0, 1));
  v.field("depth", depth, "length of a sequence at which half of that is lost", between(0, 1e6));
}

void KernelRate::visit(FieldVisitor& v) {
  v.field("name", name, "of the kernel, as profiles have it");
  v.field("type", type, "of the activations");
  v.field("call_seconds", call_seconds, "of a call beside its work", between(0, 10));
  v.field("flops", flops, "operations per second; 0: they take no time of their own",
          between(0, kMostPerSecond));
  v.field("bandwidth", bandwidth, "bytes read and written per second; 0: likewise",
          between(0, kMostPerSecond));
  v.field("most_intensity", most_intensity,
          "operations a byte up to which these rates hold; 0: any that no entry before has",
          between(0, 1e6));
}

void DeviceSection::visit(FieldVisitor& v) {
  v.field("name", name, "as its maker calls it");
  v.field("cores", cores, "of a CPU that a device is; 0: it is none", between(0, 1e5));
  v.field("memory", memory, "bytes", between(1, kMostBytes));
  v.field("reserved", reserved, "bytes of it for context, libraries and communicators",
          at_least(0));
  v.field("bandwidth", bandwidth, "of memory, bytes per second",
          settings::Constraint{.low = 0, .high = kMostPerSecond, .low_open = true});
  v.field("bandwidth_share", bandwidth_share, "of it that kernels reach", kShare);
  v.field("launch_seconds", launch_seconds, "of a kernel that follows another", between(0, 1));
  v.list("products", products, "type", "rates of matrix products, by type of the operands");
  v.section("attention", attention, "Streaming attention.");
  v.list("kernels", kernels, "name", "measured kernels of this program, by name and type");
  v.list("serving", serving, "name", "the same of passes that read and write text");
  v.field("watts", watts, "0: not given", at_least(0));
  v.field("dollars_per_hour", dollars_per_hour, "of one device; 0: not given", at_least(0));
}

void NodeSection::visit(FieldVisitor& v) {
  v.field("devices", devices, "of a node", between(1, kMostDevices));
  v.field("count", count, "of nodes", between(1, kMostDevices));
  v.field("at_once", at_once, "devices of a node that work at the same time at these rates; 0: all",
          between(0, kMostDevices));
  v.field("host_memory", host_memory, "bytes; 0: not given", between(0, kMostBytes));
  v.field("host_bandwidth", host_bandwidth,
          "device to host, bytes per second and device; 0: not given", between(0, kMostPerSecond));
}

void Link::visit(FieldVisitor& v) {
  v.field("name", name, "of the link");
  v.field("devices", devices, "devices of consecutive ranks that it joins; 0: all",
          between(0, kMostDevices));
  v.field("bandwidth", bandwidth, "bytes per second of one device, one way",
          settings::Constraint{.low = 0, .high = kMostPerSecond, .low_open = true});
  v.field("share", share, "of it that collectives reach", kShare);
  v.field("latency_seconds", latency_seconds, "of one step of a collective", between(0, 1));
  v.field("oversubscription", oversubscription, "of the switches above", between(1, 1000));
}

void ExecutionSection::visit(FieldVisitor& v) {
  v.field("activation_bytes", activation_bytes,
          "bytes of an element of a sum of activations on the wire", between(1, 8));
  v.field("gradient_bytes", gradient_bytes, "the same of gradients", between(1, 8));
  v.field("forward_overlap", forward_overlap,
          "share of transfers between tensor ranks that products hide in forward", between(0, 1));
  v.field("backward_overlap", backward_overlap, "the same in backward, of those beside a product",
          between(0, 1));
  v.field("gradient_overlap", gradient_overlap,
          "share of the last backward that transfers of gradients lie beside", between(0, 1));
  v.field("pipeline_overlap", pipeline_overlap,
          "share of transfers between pipeline stages that is hidden", between(0, 1));
  v.field("optimizer_bytes", optimizer_bytes, "read and written per parameter in the update",
          between(1, 1e3));
  v.field("fp8_bytes", fp8_bytes, "read and written per element cast to 8 bits", between(0, 1e3));
}

void Cluster::visit(FieldVisitor& v) {
  v.field("name", name, "of the cluster");
  v.section("device", device, "One device.");
  v.section("node", node, "Nodes.");
  v.list("links", links, "name", "from the inside out");
  v.section("execution", execution, "How the software runs that the shares are of.");
}

}  // namespace megalith::clusters
