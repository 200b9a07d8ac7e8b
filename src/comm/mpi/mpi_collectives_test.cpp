// SPDX-License-Identifier: Apache-2.0
// One rank of a test under mpirun (tests/system/mpi_collectives_test.py starts it): the closed
// forms of all collectives over the real plug-in, or calls that differ between ranks.
//
//   comm_mpi_test closed-forms
//   comm_mpi_test KIND     rank 1 calls what KIND (of kKinds) says, the others the same among
//                          themselves
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "comm/backends.h"
#include "comm/collective_cases.h"

namespace megalith::comm {
namespace {

class ClosedForm : public testing::Test {
 public:
  ClosedForm(Communicator& world, const CollectiveCase& what) : world_(world), what_(what) {}
  void TestBody() override { what_.run(world_); }

 private:
  Communicator& world_;
  CollectiveCase what_;
};

/// Status of the process.
int closed_forms(Communicator& world) {
  for (const CollectiveCase& what : collective_cases()) {
    testing::RegisterTest(
        "MpiCollective", what.name, nullptr, nullptr, __FILE__, __LINE__,
        [&world, what]() -> testing::Test* { return new ClosedForm(world, what); });
  }
  return RUN_ALL_TESTS();
}

View view_of(std::vector<float>& x, int64_t count, DType dtype = DType::f32) {
  return {reinterpret_cast<std::byte*>(x.data()), dtype, Shape{count}};
}

constexpr const char* kKinds[] = {"collective", "transfer",     "smaller", "larger",
                                  "dtype",      "much-smaller", "groups"};

void require_kind(const std::string& kind) {
  if (std::ranges::find(kKinds, kind) != std::end(kKinds)) return;
  throw UserError("comm_mpi_test {}: unknown; use closed-forms or one of {}", kind,
                  fmt::join(kKinds, ", "));
}

/// What `kind` says differs on rank 1. More elements than a message takes without asking first.
void call(Communicator& world, const std::string& kind) {
  constexpr int64_t kMany = 1 << 18;
  const bool odd = world.rank() == 1;
  std::vector<float> x(kMany);
  world.set_step(3);
  world.barrier("before");
  if (kind == "collective") {
    if (odd) return world.wait(world.start_all_reduce_max(view_of(x, 8), "weights"));
    return world.wait(world.start_broadcast(view_of(x, 8), 0, "weights"));
  }
  if (kind == "groups") {
    const std::vector<Membership> all(static_cast<size_t>(world.size()));
    const auto one = world.split(all, "one"), other = world.split(all, "other");
    world.set_deadline(2);
    return (odd ? one : other)->barrier("end of step");
  }
  if (kind == "transfer") {
    if (odd) return world.wait(world.start_receive(0, view_of(x, 7), "activation"));
    if (world.rank() == 0) world.wait(world.start_send(1, view_of(x, 8), "activation"));
    return world.barrier("after");
  }
  int64_t count = 8;
  DType dtype = DType::f32;
  if (kind == "smaller" && odd) count = 7;
  if (kind == "larger" && odd) count = 9;
  if (kind == "much-smaller") count = odd ? 7 : kMany;
  if (kind == "dtype" && odd) dtype = DType::bf16;
  world.wait(world.start_broadcast(view_of(x, count, dtype), 0, "weights"));
}

int run(const std::string& what) {
  int status = 0;
  try {
    if (what != "closed-forms") require_kind(what);
    run_mpi_rank(
        [&](Communicator& world) {
          if (what == "closed-forms") {
            status = closed_forms(world);
          } else {
            call(world, what);
          }
        },
        {30});
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
  return status;
}

}  // namespace
}  // namespace megalith::comm

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return megalith::comm::run(argc > 1 ? argv[1] : "closed-forms");
}
