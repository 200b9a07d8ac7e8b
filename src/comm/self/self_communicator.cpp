// SPDX-License-Identifier: Apache-2.0
// One rank: the calls that move data to oneself are copies on the device, all others are nothing.
#include "comm/backends.h"

namespace megalith::comm {
namespace {

class CopyPending final : public Pending {
 public:
  CopyPending(device::Device& device, device::Ticket ticket) : device_(device), ticket_(ticket) {}
  void wait() override { device_.wait(ticket_); }

 private:
  device::Device& device_;
  device::Ticket ticket_;
};

class SelfCommunicator final : public Communicator {
 public:
  SelfCommunicator(device::Device& device, std::string name, std::shared_ptr<RankState> state)
      : Communicator(0, 1, std::move(name), std::move(state)), device_(device) {}

  std::vector<std::string> exchange(std::string_view mine, std::string_view) override {
    return {std::string(mine)};
  }
  void heartbeat() override {}
  void abort(const std::string&) override {}

 protected:
  Ticket start(const Operation& operation) override {
    const bool copies = operation.source && operation.target && operation.count > 0 &&
                        operation.source.data() != operation.target.data();
    if (!copies) return {};
    const Shape flat{operation.count};
    const device::Ticket ticket =
        device_.copy(operation.target.reshape(flat), operation.source.reshape(flat));
    return Ticket(std::make_unique<CopyPending>(device_, ticket));
  }
  std::unique_ptr<Communicator> make_group(std::span<const int>, int, int,
                                           std::string name) override {
    return std::make_unique<SelfCommunicator>(device_, std::move(name), shared_state());
  }
  std::unique_ptr<ControlMessages> make_second(std::shared_ptr<RankState> state,
                                               std::string name) override {
    return std::make_unique<SelfCommunicator>(device_, std::move(name), std::move(state));
  }

 private:
  device::Device& device_;
};

}  // namespace

std::unique_ptr<Communicator> make_self_communicator(device::Device& device) {
  auto state = std::make_shared<RankState>();
  state->device = &device;
  return std::make_unique<SelfCommunicator>(device, "world", std::move(state));
}

}  // namespace megalith::comm
