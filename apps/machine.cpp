// SPDX-License-Identifier: Apache-2.0
#include "apps/machine.h"

#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>

namespace megalith::apps {

nlohmann::ordered_json machine_json(const device::Target& target) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return {{"cpu", device::cpu_name()},
          {"isa", std::string(name_of(target.isa))},
          {"threads", target.num_threads},
          {"memory_bytes", device::memory_bytes()},
          {"host", host.data()}};
}

}  // namespace megalith::apps
