// SPDX-License-Identifier: Apache-2.0
#include "account/measured_memory.h"

#include <unistd.h>

#include <string>
#include <vector>

#include "account/plan.h"
#include "base/host.h"

namespace megalith::account {

nlohmann::ordered_json measured_memory(comm::Communicator& world, const device::Device& device,
                                       int64_t resident_at_start) {
  const account::MemoryByClass measured = account::memory_of(device);
  nlohmann::ordered_json json = account::to_json(measured);
  // Ranks that are threads of this process are not outside.
  int64_t own = 0, arenas = 0;
  for (const int64_t bytes : measured.bytes) own += bytes;
  const std::string process = fmt::format("{}:{}", host_name(), ::getpid());
  const std::vector<std::string> processes = world.exchange(process, "memory.process");
  const auto of_ranks = world.exchange_values(std::span<const int64_t>(&own, 1), "memory.arenas");
  for (size_t rank = 0; rank < processes.size(); ++rank) {
    if (processes[rank] == process) arenas += of_ranks[rank];
  }
  json["outside"] = account::resident_memory().peak - resident_at_start - arenas;
  return json;
}

}  // namespace megalith::account
