// SPDX-License-Identifier: Apache-2.0
// One rank of many that do not exist. The base class checks and counts; nothing is left to do.
#include "comm/backends.h"

namespace megalith::comm {
namespace {

class TracedCommunicator final : public Communicator {
 public:
  TracedCommunicator(int rank, int size, std::string name, std::shared_ptr<RankState> state)
      : Communicator(rank, size, std::move(name), std::move(state)) {}

  std::vector<std::string> exchange(std::string_view mine, std::string_view) override {
    return std::vector<std::string>(static_cast<size_t>(size()), std::string(mine));
  }
  void heartbeat() override {}
  void abort(const std::string&) override {}

 protected:
  Ticket start(const Operation&) override { return {}; }
  std::unique_ptr<Communicator> make_group(std::span<const int> members, int rank, int,
                                           std::string name) override {
    return std::make_unique<TracedCommunicator>(rank, static_cast<int>(members.size()),
                                                std::move(name), shared_state());
  }
  std::unique_ptr<ControlMessages> make_second(std::shared_ptr<RankState> state,
                                               std::string name) override {
    return std::make_unique<TracedCommunicator>(rank(), size(), std::move(name), std::move(state));
  }
};

}  // namespace

std::unique_ptr<Communicator> make_traced_communicator(device::Device& device, int rank, int size) {
  auto state = std::make_shared<RankState>();
  state->world_rank = rank;
  state->world_size = size;
  state->device = &device;
  return std::make_unique<TracedCommunicator>(rank, size, "world", std::move(state));
}

}  // namespace megalith::comm
