// SPDX-License-Identifier: Apache-2.0
// Every collective against its closed form on groups of 1 to 5 ranks (threads that share memory,
// and threads that only send messages; processes: mpi/mpi_collectives_test.cpp); wire bytes against
// their formulas (against what is sent: messages/wire_bytes_test.cpp).
#include "comm/communicator.h"

#include <gtest/gtest.h>

#include "comm/backends.h"
#include "comm/collective_cases.h"
#include "comm/messages/mailbox_fixture.h"
#include "device/recorder.h"

namespace megalith::comm {
namespace {

using Values = std::vector<int64_t>;

enum class Backend { threads, messages };

void on_ranks(Backend backend, int ranks, FunctionRef<void(Communicator&)> body) {
  if (backend == Backend::threads) return run_ranks(ranks, body, {30});
  for (const std::string& error : run_mailbox_ranks(ranks, body)) EXPECT_EQ(error, "");
}

class Collective : public testing::TestWithParam<std::tuple<Backend, int, CollectiveCase>> {};

TEST_P(Collective, EqualsItsClosedForm) {
  const auto& [backend, ranks, what] = GetParam();
  on_ranks(backend, ranks, what.run);
}

std::string name_of_case(const testing::TestParamInfo<Collective::ParamType>& test) {
  const auto& [backend, ranks, what] = test.param;
  return what.name + std::string(backend == Backend::threads ? "Threads" : "Messages") +
         std::to_string(ranks);
}

const auto kCases = testing::ValuesIn(collective_cases().begin(), collective_cases().end());
INSTANTIATE_TEST_SUITE_P(Ranks, Collective,
                         testing::Combine(testing::Values(Backend::threads, Backend::messages),
                                          testing::Range(1, 6), kCases),
                         name_of_case);

TEST(SelfCommunicator, CopiesWhereACallMovesData) {
  auto device = device::make_cpu_device(1);
  const auto comm = make_self_communicator(*device);
  Values x{1, 2, 3}, y(3), z(3);
  comm->wait(comm->start_all_gather(view_of(x), view_of(y), "gather"));
  comm->wait(comm->start_all_to_all(view_of(x), view_of(z), "to all"));
  EXPECT_EQ(y, x);
  EXPECT_EQ(z, x);
  comm->wait(comm->start_all_reduce_sum(view_of(y), "sum"));
  EXPECT_EQ(y, x);
  EXPECT_EQ(comm->exchange("a", "text"), std::vector<std::string>{"a"});
  comm->barrier("alone");
}

TEST(TracedCommunicator, CountsTheFormulasOfRanksThatDoNotExist) {
  auto device = device::make_trace_device({});
  device::Recorder recorder;
  const auto world = make_traced_communicator(*device, 5, 8);
  device->set_recorder(&recorder);
  std::vector<Membership> pairs;
  for (int r = 0; r < 8; ++r) pairs.push_back({r / 4, r});
  const auto four = world->split(pairs, "four");
  EXPECT_EQ(four->rank(), 1);
  EXPECT_EQ(four->size(), 4);
  const auto on_device = [&](int64_t rows) {
    return device->arena(device::MemoryClass::workspace).tensor(DType::f32, Shape{rows, 5});
  };
  const auto own = on_device(3), all = on_device(12), pieces = on_device(12);
  const int64_t bytes = 12 * 5 * 4;
  const auto sent = [&] {
    const int64_t wire = recorder.total().bytes_wire;
    recorder.clear();
    return wire;
  };
  four->wait(four->start_all_gather(own, all, "gather"));
  EXPECT_EQ(sent(), 3 * bytes / 4);
  four->wait(four->start_all_to_all(all, pieces, "pieces"));
  EXPECT_EQ(sent(), 3 * bytes / 4);
  four->wait(four->start_all_reduce_max(all, "max"));
  EXPECT_EQ(sent(), 3 * bytes);
  four->wait(four->start_broadcast(all, 1, "from me"));
  EXPECT_EQ(sent(), 3 * bytes);
  four->wait(four->start_broadcast(all, 0, "from another"));
  EXPECT_EQ(sent(), 0);
  four->wait(four->start_send(0, all, "activation"));
  EXPECT_EQ(sent(), bytes);
  four->wait(four->start_receive(0, all, "activation"));
  EXPECT_EQ(sent(), 0);
}

// What threads count is what a trace of each rank counts, parts of unequal size included.
TEST(Recording, ThreadsAndTraceCountTheSame) {
  run_ranks(3, [](Communicator& comm) {
    auto device = device::make_cpu_device(1);
    auto traced_device = device::make_trace_device({});
    device::Recorder recorder, traced_recorder;
    device->set_recorder(&recorder);
    traced_device->set_recorder(&traced_recorder);
    comm.set_device(device.get());
    const auto traced = make_traced_communicator(*traced_device, comm.rank(), comm.size());
    Values x(11, comm.rank());
    const Part part = part_of(11, comm.rank(), 3);
    Values pieces(static_cast<size_t>(3 * part.count));
    for (Communicator* const c : {&comm, traced.get()}) {
      c->wait(c->start_all_to_all(view_of(x), view_of(pieces), "pieces"));
      c->wait(c->start_all_gather(view_of(x).rows(part.begin, part.count), view_of(x), "x"));
      c->wait(c->start_all_reduce_sum(view_of(x), "sum"));
    }
    comm.exchange("host data is not counted", "text");
    EXPECT_EQ(recorder.total().bytes_wire, traced_recorder.total().bytes_wire);
    EXPECT_EQ(recorder.records().size(), 6u);  // three calls and their waits
    comm.set_device(nullptr);
  });
}

}  // namespace
}  // namespace megalith::comm
