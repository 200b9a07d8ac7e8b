// SPDX-License-Identifier: Apache-2.0
#include "clusters/cluster.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "settings/reader.h"
#include "settings/tree.h"

namespace megalith::clusters {
namespace {

constexpr int64_t kLargestFile = 1 << 20;

using settings::Fault;
using Faults = std::vector<Fault>;

/// Rates of one kernel and type come with rising intensities, the last without.
void kernel_rules(const std::vector<KernelRate>& rates, std::string_view list, Faults& faults) {
  std::map<std::pair<std::string, ProductType>, double> before;
  for (size_t i = 0; i < rates.size(); ++i) {
    const KernelRate& rate = rates[i];
    const std::string path = fmt::format("device.{}.{}", list, i);
    if (rate.type != ProductType::f32 && rate.type != ProductType::bf16)
      faults.push_back({path + ".type", {}, fmt::format("{} is not f32 or bf16", rate.type)});
    if (list == "kernels" && rate.most_intensity > 0)
      faults.push_back({path + ".most_intensity", {}, "is for device.serving; leave it out"});
    const double most =
        rate.most_intensity > 0 ? rate.most_intensity : std::numeric_limits<double>::infinity();
    const auto [place, is_new] = before.try_emplace({rate.name, rate.type}, most);
    if (!is_new && most <= place->second)
      faults.push_back(
          {path + ".name", {}, fmt::format("{} in {} is there twice", rate.name, rate.type)});
    place->second = most;
    if (rate.call_seconds == 0 && rate.flops == 0 && rate.bandwidth == 0)
      faults.push_back(
          {path + ".name", {}, "takes no time; give call_seconds, flops or bandwidth"});
  }
}

void device_rules(const DeviceSection& d, Faults& faults) {
  if (d.memory == 0) faults.push_back({"device.memory", {}, "is missing; give bytes"});
  if (d.memory > 0 && d.reserved >= d.memory)
    faults.push_back({"device.reserved",
                      {},
                      fmt::format("{} leaves nothing of device.memory {}", d.reserved, d.memory)});
  if (d.bandwidth == 0)
    faults.push_back({"device.bandwidth", {}, "is missing; give bytes per second"});
  if (d.products.empty())
    faults.push_back(
        {"device.products", {}, "is empty; give at least {type: bf16, peak: ..., share: ...}"});
  std::set<ProductType> types;
  for (size_t i = 0; i < d.products.size(); ++i) {
    const ProductRate& rate = d.products[i];
    const std::string path = fmt::format("device.products.{}", i);
    if (rate.peak == 0)
      faults.push_back({path + ".peak", {}, "is missing; give operations per second"});
    if (!types.insert(rate.type).second)
      faults.push_back({path + ".type", {}, fmt::format("{} is there twice", rate.type)});
  }
  kernel_rules(d.kernels, "kernels", faults);
  kernel_rules(d.serving, "serving", faults);
  if ((d.attention.forward > 0) != (d.attention.backward > 0))
    faults.push_back(
        {"device.attention", {}, "has one of forward and backward; give both, or leave both out"});
}

/// Links must lead from the devices of a node to all of them, each joining more than the last.
void link_rules(const Cluster& c, Faults& faults) {
  if (c.devices() > 1 && c.links.empty()) {
    faults.push_back({"links", {}, fmt::format("is empty, but there are {} devices", c.devices())});
    return;
  }
  if (c.node.at_once > c.node.devices)
    faults.push_back(
        {"node.at_once",
         {},
         fmt::format("{} is more than node.devices {}", c.node.at_once, c.node.devices)});
  int64_t inside = 1;
  double faster = 0;
  for (size_t i = 0; i < c.links.size(); ++i) {
    const Link& link = c.links[i];
    const std::string path = fmt::format("links.{}", i);
    if (link.bandwidth == 0)
      faults.push_back({path + ".bandwidth", {}, "is missing; give bytes per second"});
    const int64_t joined = link.devices == 0 ? c.devices() : link.devices;
    if (joined > c.devices() || joined % inside != 0 || (i > 0 && joined <= inside)) {
      faults.push_back(
          {path + ".devices",
           {},
           fmt::format("{} must be a multiple of the {} inside and at most {} (node.devices x "
                       "node.count)",
                       joined, inside, c.devices())});
      return;
    }
    if (i > 0 && link.bandwidth > faster)
      faults.push_back({path + ".bandwidth",
                        {},
                        fmt::format("{:g} is more than that of the link inside, {:g}; links go "
                                    "from the inside out",
                                    link.bandwidth, faster)});
    inside = joined;
    faster = link.bandwidth;
  }
  if (inside != c.devices())
    faults.push_back({"links",
                      {},
                      fmt::format("join {} of {} devices; let the last have devices: 0 (all)",
                                  inside, c.devices())});
  if (c.node.count > 1 &&
      std::ranges::none_of(c.links,
                           [&](const Link& link) { return link.devices == c.node.devices; }) &&
      c.node.devices > 1)
    faults.push_back({"links",
                      {},
                      fmt::format("none joins the {} devices of a node (devices: {})",
                                  c.node.devices, c.node.devices)});
}

}  // namespace

const ProductRate* Cluster::find(ProductType type) const {
  const auto found = std::ranges::find(device.products, type, &ProductRate::type);
  return found == device.products.end() ? nullptr : &*found;
}

double Cluster::sharing(double ranks) const {
  if (node.at_once == 0) return 1;
  const double here = std::min(ranks, static_cast<double>(node.devices));  // of a node
  return std::max(1.0, here / static_cast<double>(node.at_once));
}

const KernelRate* Cluster::find_kernel(std::string_view kernel, ProductType type) const {
  const auto found = std::ranges::find_if(device.kernels, [&](const KernelRate& rate) {
    return rate.type == type && rate.name == kernel;
  });
  return found == device.kernels.end() ? nullptr : &*found;
}

const KernelRate* Cluster::find_serving(std::string_view kernel, ProductType type,
                                        double intensity) const {
  const auto found = std::ranges::find_if(device.serving, [&](const KernelRate& rate) {
    return rate.type == type && rate.name == kernel &&
           (rate.most_intensity == 0 || intensity <= rate.most_intensity);
  });
  return found == device.serving.end() ? nullptr : &*found;
}

const ProductRate& Cluster::known(ProductType type) const {
  const ProductRate* const rate = find(type);
  if (rate == nullptr)
    throw UserError(
        "cluster {}: {} has no products of {}; add {{type: {}, peak: ..., share: ...}} "
        "to device.products, or compute in another type",
        name, device.name, type, type);
  if (!rate->share)
    throw UserError(
        "cluster {}: nobody has measured which share of its peak {} reaches in "
        "products of {}; measure it (bench/gpu/rates.py) and give "
        "device.products[].share, or plan for another cluster",
        name, device.name, type);
  return *rate;
}

const Link& Cluster::joining(int64_t count) const {
  for (const Link& link : links) {
    if (link.devices == 0 || link.devices >= count) return link;
  }
  throw UserError("cluster {}: no link joins {} devices; it has {}", name, count, devices());
}

Cluster parse_cluster(std::string_view text, std::string_view name) {
  Faults faults;
  settings::Node root = settings::parse_tree(text, name, faults);
  if (root.kind == settings::Node::Kind::null) root.kind = settings::Node::Kind::map;
  if (root.kind != settings::Node::Kind::map)
    throw UserError("{}: a cluster is a map of sections, not {}", name, settings::describe(root));
  Cluster cluster;
  settings::Positions positions;
  settings::read_fields(
      root, [&](settings::FieldVisitor& v) { cluster.visit(v); }, {}, positions, faults);
  if (faults.empty()) {
    if (cluster.name.empty()) cluster.name = std::filesystem::path(name).stem().string();
    device_rules(cluster.device, faults);
    link_rules(cluster, faults);
    for (Fault& fault : faults) {
      const auto found = positions.find(fault.path);
      fault.at = found != positions.end() ? found->second : settings::Position{std::string(name)};
    }
  }
  if (!faults.empty()) throw UserError("{}", settings::one_line(faults));
  return cluster;
}

Cluster load_cluster(const std::filesystem::path& path) {
  return parse_cluster(read_file(path, kLargestFile), path.string());
}

}  // namespace megalith::clusters
