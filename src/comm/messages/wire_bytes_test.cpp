// SPDX-License-Identifier: Apache-2.0
// What a call is recorded with is what its rank hands to the transport, byte for byte.
#include <gtest/gtest.h>

#include <thread>

#include "comm/collective_cases.h"
#include "comm/messages/mailbox_fixture.h"
#include "comm/messages/message_pending.h"
#include "device/recorder.h"

namespace megalith::comm {
namespace {

/// Of one rank's calls: their data, and their identities.
struct Sent {
  int64_t data = 0;
  int64_t headers = 0;
};

class CountingTransport final : public MailboxTransport {
 public:
  CountingTransport(MailboxHub& hub, int rank, Sent& sent)
      : MailboxTransport(hub, rank), sent_(sent) {}
  Handle start_send(int to, int tag, const std::byte* data, int64_t bytes) override {
    if (tag >= MessageWorld::kTagsPerGroup) (tag % 2 == 0 ? sent_.headers : sent_.data) += bytes;
    return MailboxTransport::start_send(to, tag, data, bytes);
  }

 private:
  Sent& sent_;
};

/// Makes calls on one rank, and compares.
class Calls {
 public:
  Calls(Communicator& comm, const Sent& sent) : comm_(comm), sent_(sent) {
    device_->set_recorder(&recorder_);
    comm_.set_device(device_.get());
  }
  ~Calls() { comm_.set_device(nullptr); }

  /// `told`: ranks that the call's identity is sent to.
  void expect(const char* call, int64_t rows, int told, FunctionRef<Ticket()> start) {
    const Sent before = sent_;
    recorder_.clear();
    comm_.wait(start());
    const std::string where =
        fmt::format("{} of {} rows, rank {} of {}", call, rows, comm_.rank(), comm_.size());
    EXPECT_EQ(recorder_.total().bytes_wire, sent_.data - before.data) << where;
    EXPECT_EQ(sent_.headers - before.headers, told * static_cast<int64_t>(sizeof(CallHeader)))
        << where;
  }

 private:
  Communicator& comm_;
  const Sent& sent_;
  device::Recorder recorder_;
  std::unique_ptr<device::Device> device_ = device::make_cpu_device(1);
};

constexpr int64_t kColumns = 3;

/// Every kind of call on `rows` rows.
void every_kind(Communicator& comm, const Sent& sent, int64_t rows) {
  Calls calls(comm, sent);
  const int s = comm.size(), others = s - 1;
  const Part part = part_of(rows, comm.rank(), s);
  std::vector<float> x(static_cast<size_t>(rows * kColumns), 1);
  std::vector<float> pieces(static_cast<size_t>(s * part.count * kColumns));
  const View whole = view_of(x).reshape({rows, kColumns});
  calls.expect("all_gather", rows, others, [&] {
    return comm.start_all_gather(whole.rows(part.begin, part.count), whole, "call");
  });
  calls.expect("all_to_all", rows, others,
               [&] { return comm.start_all_to_all(whole, view_of(pieces), "call"); });
  for (int root = 0; root < s; ++root) {
    calls.expect("broadcast", rows, others,
                 [&] { return comm.start_broadcast(whole, root, "call"); });
  }
  calls.expect("all_reduce_max", rows, others,
               [&] { return comm.start_all_reduce_max(whole, "call"); });
  std::vector<int32_t> flags(static_cast<size_t>(rows));
  calls.expect("all_reduce_min", rows, others,
               [&] { return comm.start_all_reduce_min(view_of(flags), "call"); });
  std::vector<int64_t> counts(static_cast<size_t>(rows));
  calls.expect("all_reduce_sum", rows, others,
               [&] { return comm.start_all_reduce_sum(view_of(counts), "call"); });
  if (comm.rank() == 0)
    calls.expect("send", rows, 1, [&] { return comm.start_send(others, whole, "call"); });
  if (comm.rank() == others)
    calls.expect("receive", rows, 0, [&] { return comm.start_receive(0, whole, "call"); });
  const Sent before = sent;
  comm.barrier("call");
  EXPECT_EQ(sent.data, before.data);
}

TEST(WireBytes, WhatIsCountedIsWhatIsSent) {
  for (int ranks = 2; ranks <= 5; ++ranks) {
    MailboxHub hub(ranks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&hub, rank] {
        Sent sent;
        CountingTransport transport(hub, rank, sent);
        run_message_rank(transport, "host",
                         [&](Communicator& comm) {
                           for (const int64_t rows : {0, 1, 7, 12}) every_kind(comm, sent, rows);
                         },
                         {});
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace megalith::comm
