// SPDX-License-Identifier: Apache-2.0
#include "account/plan.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace megalith::account {

MemoryByClass memory_of(const device::Device& device) {
  MemoryByClass memory;
  for (int i = 0; i < device::kNumMemoryClasses; ++i) {
    memory.bytes[static_cast<size_t>(i)] =
        device.arena(static_cast<device::MemoryClass>(i)).high_water();
  }
  memory.total = device.total().peak;
  return memory;
}

Plan trace(const device::Target& target, FunctionRef<void(device::Device&)> body) {
  const auto device = device::make_trace_device(target);
  device::Recorder recorder;
  device->set_recorder(&recorder);
  body(*device);
  return {memory_of(*device), recorder.total(), recorder.records()};
}

nlohmann::ordered_json to_json(const MemoryByClass& memory) {
  nlohmann::ordered_json json;
  for (int i = 0; i < device::kNumMemoryClasses; ++i) {
    json[std::string(name_of(static_cast<device::MemoryClass>(i)))] =
        memory.bytes[static_cast<size_t>(i)];
  }
  json["total"] = memory.total;
  return json;
}

std::string bytes_text(int64_t bytes) {
  constexpr std::array<const char*, 5> units{"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.2f} {}", value, units[unit]);
}

Resident resident_memory() {
  Resident resident;
  std::ifstream status("/proc/self/status");
  std::string key;
  while (status >> key) {
    int64_t kib = 0;
    if (key == "VmRSS:" && status >> kib) resident.now = kib * 1024;
    if (key == "VmHWM:" && status >> kib) resident.peak = kib * 1024;
  }
  return resident;
}

}  // namespace megalith::account
