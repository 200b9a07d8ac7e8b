// SPDX-License-Identifier: Apache-2.0
// A machine as data: what one device multiplies, reads and holds, how devices are linked, tier by
// tier from the node outward, and how the software that its figures are of runs. Files are
// recipes/clusters/*.yaml; each figure has its source beside it there.
//
// What nobody has measured stays absent: a share that is absent means that no time can be predicted
// of such a product, and whoever needs one says so instead of inventing it.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "settings/field.h"

namespace megalith::clusters {

/// Operands of a matrix product.
enum class ProductType : uint8_t { f32, tf32, bf16, f16, fp8, int8 };

/// The rate of products of T rows, [T, K] by [K, N]: they take
///   2 T N K / (peak share) (1 + depth / K)
/// seconds, or the time of reading and writing their operands if that is longer, and a launch.
struct ProductRate {
  ProductType type = ProductType::bf16;
  double peak = 0;              // operations per second, dense, by the data sheet
  std::optional<double> share;  // of it that deep products reach; absent: not known
  double depth = 0;             // the K at which half of that is lost
  void visit(settings::FieldVisitor& v);
};

/// The rate of streaming attention (Dao et al. 2022) on the pairs that exist, of a causal sequence
/// half, as a share of the 16-bit peak: share / (1 + depth / sequence).
struct AttentionRate {
  double forward = 0;  // 0: not known
  double backward = 0;
  double depth = 0;
  void visit(settings::FieldVisitor& v);
};

/// What calls of one kernel of this program take, measured:
///   calls call_seconds + operations / flops + bytes / bandwidth
/// seconds; a rate of 0 leaves its term out. Operations and bytes are those that a trace records
/// (device/work.h). The bytes of its operands make the rate of a product one of its shape.
struct KernelRate {
  std::string name;                     // as profiles and traces have it: "linear_forward"
  ProductType type = ProductType::f32;  // of the activations: f32 or bf16
  double call_seconds = 0;
  double flops = 0;      // per second
  double bandwidth = 0;  // bytes per second, read and written
  /// Of calls with at most so many operations a byte; 0: of any, that no rate before has. Reading
  /// a weight for one row and multiplying many with it are two things.
  double most_intensity = 0;
  double seconds(double calls, double operations, double bytes) const {
    return calls * call_seconds + (flops > 0 ? operations / flops : 0) +
           (bandwidth > 0 ? bytes / bandwidth : 0);
  }
  void visit(settings::FieldVisitor& v);
};

inline constexpr std::string_view kOutsideKernels = "outside_kernels";

struct DeviceSection {
  std::string name;
  int64_t cores = 0;     // of a CPU that a device is; 0: it is none
  int64_t memory = 0;    // bytes
  int64_t reserved = 0;  // of it, for context, libraries and communicators
  double bandwidth = 0;  // of memory, bytes per second, by the data sheet
  double bandwidth_share = 1;
  double launch_seconds = 0;  // of a kernel that follows another
  std::vector<ProductRate> products;
  AttentionRate attention;
  /// When there are some, times are those of a traced step's kernels, not of products, attention
  /// and streams.
  std::vector<KernelRate> kernels;
  /// The same of passes that read and write text. What a pass takes outside of kernels is named
  /// `kOutsideKernels`: calls are those of its kernels, bytes those of its logits in f32.
  std::vector<KernelRate> serving;
  double watts = 0;             // 0: not given
  double dollars_per_hour = 0;  // of one device; 0: not given
  void visit(settings::FieldVisitor& v);
};

struct NodeSection {
  int64_t devices = 1;
  int64_t count = 1;  // of nodes
  /// Devices of a node that are at work at the same time at the rates that the file gives: of more,
  /// each gets a part of the time. 0: all.
  int64_t at_once = 0;
  int64_t host_memory = 0;    // bytes; 0: not given
  double host_bandwidth = 0;  // device to host, bytes per second and device; 0: not given
  void visit(settings::FieldVisitor& v);
};

/// What joins `devices` devices that have consecutive ranks. Bandwidth is of one device, one way.
struct Link {
  std::string name;
  int64_t devices = 0;  // 0: all
  double bandwidth = 0;
  double share = 1;             // of it that collectives reach
  double latency_seconds = 0;   // of one step of a collective
  double oversubscription = 1;  // of the switches above: all at once get bandwidth / this
  double rate() const { return bandwidth * share / oversubscription; }
  void visit(settings::FieldVisitor& v);
};

/// How the software runs that the shares are of.
struct ExecutionSection {
  int64_t activation_bytes = 2;  // of an element of a sum of activations on the wire
  int64_t gradient_bytes = 4;    // of an element of a sum of gradients on the wire
  double forward_overlap = 0;    // share of tensor-parallel transfers hidden in forward
  double backward_overlap = 0;   // the same in backward, of those beside a product
  double gradient_overlap = 0;   // share of backward that transfers of gradients may lie beside
  double pipeline_overlap = 0;   // share of transfers between stages that is hidden
  double optimizer_bytes = 58;   // read and written per parameter in the update
  double fp8_bytes = 0;          // read and written per element cast, scale and transpose included
  void visit(settings::FieldVisitor& v);
};

struct Cluster {
  std::string name;
  DeviceSection device;
  NodeSection node;
  std::vector<Link> links;  // from the inside out
  ExecutionSection execution;
  void visit(settings::FieldVisitor& v);

  int64_t devices() const { return node.devices * node.count; }
  /// Of `ranks` devices, all at work, that share cores: how much longer each takes.
  double sharing(double ranks) const;
  /// Bytes that a program may plan for on a device.
  int64_t usable_memory() const { return device.memory - device.reserved; }
  /// Null when the device has no such products.
  const ProductRate* find(ProductType type) const;
  /// Null when the kernel has no rate of its own.
  const KernelRate* find_kernel(std::string_view kernel, ProductType type) const;
  /// Of passes that read and write text, with so many operations a byte.
  const KernelRate* find_serving(std::string_view kernel, ProductType type, double intensity) const;
  /// UserError naming the key to add when peak or share are not known.
  const ProductRate& known(ProductType type) const;
  /// The innermost link that joins `devices` devices of consecutive ranks. UserError when there is
  /// none.
  const Link& joining(int64_t devices) const;
};

/// Reads a file (YAML, at most 1 MiB). UserError with everything that is missing, unknown or
/// impossible in one line, each with file:line:column and what to change.
Cluster load_cluster(const std::filesystem::path& path);
/// The same from a text; `name` stands for the file.
Cluster parse_cluster(std::string_view text, std::string_view name);

}  // namespace megalith::clusters

namespace megalith::settings {

template <>
struct EnumNames<clusters::ProductType> {
  static constexpr std::array<std::string_view, 6> names = {"f32", "tf32", "bf16",
                                                            "f16", "fp8",  "int8"};
};

}  // namespace megalith::settings

namespace megalith::clusters {
inline std::string_view format_as(ProductType type) { return settings::name_of(type); }
}  // namespace megalith::clusters
