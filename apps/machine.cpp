// SPDX-License-Identifier: Apache-2.0
#include "apps/machine.h"

#include <nlohmann/json.hpp>

#include "base/host.h"

namespace megalith::apps {

nlohmann::ordered_json machine_json(const device::Target& target) {
  return {{"cpu", device::cpu_name()},
          {"isa", std::string(name_of(target.isa))},
          {"threads", target.num_threads},
          {"memory_bytes", device::memory_bytes()},
          {"host", host_name()}};
}

}  // namespace megalith::apps
