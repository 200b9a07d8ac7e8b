// SPDX-License-Identifier: Apache-2.0
#include "comm/messages/message_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "comm/messages/message_pending.h"

namespace megalith::comm {
namespace {

/// Each channel of transfers has a tag for headers and one for data, as collectives have.
constexpr int kChannels = MessageWorld::kTagsPerGroup / 2 - 1;

/// A heartbeat goes out after this part of the deadline at the soonest: some may be late.
constexpr double kHeartbeatAfter = 0.125;

}  // namespace

MessageCommunicator::MessageCommunicator(std::shared_ptr<MessageWorld> messages, int group,
                                         std::vector<int> members, int rank, std::string name,
                                         std::shared_ptr<RankState> state)
    : Communicator(rank, static_cast<int>(members.size()), std::move(name), std::move(state)),
      messages_(std::move(messages)),
      group_(group),
      members_(std::move(members)) {}

void MessageCommunicator::heartbeat() {
  messages_->heartbeat(state().deadline_seconds * kHeartbeatAfter);
}

void MessageCommunicator::abort(const std::string& cause) {
  messages_->fail({ExitCode::failure, state().told(cause)});
}

Ticket MessageCommunicator::start(const Operation& operation) {
  if (messages_->failed()) {
    messages_->throw_failure(
        fmt::format("{}, {} of group '{}'", state().place(), describe(operation), name()));
  }
  if (size() == 1) return copy_to_self(operation);
  MEGA_CHECK(operation.device == nullptr || operation.device->is_host_memory(),
             "messages between processes carry memory of the host, not of {}",
             operation.device->kind());
  int channel = 0;  // of the group's own calls
  if (operation.kind == OperationKind::transfer) {
    MEGA_CHECK(operation.channel >= 0 && operation.channel < kChannels, "channel {}",
               operation.channel);
    channel = 1 + operation.channel;
  }
  const int tag = group_ * MessageWorld::kTagsPerGroup + 2 * channel;
  return Ticket(std::make_unique<MessagePending>(
      MessagePending::Place{messages_, shared_state(), name(), &members_, rank(), tag}, operation,
      numbers_.next(operation, rank()).number));
}

int MessageCommunicator::agree_on_group() {
  const int64_t mine = messages_->next_group();
  const auto all = exchange_values(std::span<const int64_t>(&mine, 1), "group");
  const auto group = static_cast<int>(std::ranges::max(all));
  messages_->take_group(group);
  return group;
}

std::unique_ptr<Communicator> MessageCommunicator::make_group(std::span<const int> members,
                                                              int rank, int, std::string name) {
  const int group = agree_on_group();  // groups of one split share no ranks
  std::vector<int> world_ranks;
  for (const int member : members) world_ranks.push_back(members_[static_cast<size_t>(member)]);
  return std::make_unique<MessageCommunicator>(messages_, group, std::move(world_ranks), rank,
                                               std::move(name), shared_state());
}

std::unique_ptr<ControlMessages> MessageCommunicator::make_second(std::shared_ptr<RankState> state,
                                                                  std::string name) {
  const int group = agree_on_group();
  return std::make_unique<MessageCommunicator>(messages_, group, members_, rank(), std::move(name),
                                               std::move(state));
}

void run_message_rank(Transport& transport, const std::string& host,
                      FunctionRef<void(Communicator&)> body, const RankOptions& options) {
  const auto messages = std::make_shared<MessageWorld>(transport);
  const auto state = std::make_shared<RankState>();
  state->world_rank = transport.rank();
  state->world_size = transport.size();
  state->host = host;
  state->deadline_seconds = options.deadline_seconds;
  try {
    std::vector<int> all(static_cast<size_t>(transport.size()));
    std::iota(all.begin(), all.end(), 0);
    const int group = messages->next_group();
    messages->take_group(group);
    MessageCommunicator world(messages, group, std::move(all), transport.rank(), "world", state);
    messages->set_hosts(world.exchange(host, "hosts"));
    body(world);
    world.set_device(nullptr);  // the body's own may be gone
    world.barrier("end");
  } catch (const RankFailure&) {
    messages->throw_own_failure();  // of the rank's other thread
    throw;
  } catch (...) {
    messages->fail(state->told(std::current_exception()));
    messages->throw_own_failure();
    messages->throw_failure(state->place());
  }
}

}  // namespace megalith::comm
