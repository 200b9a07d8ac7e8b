// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementary/run_chosen.h"

#include <gtest/gtest.h>

#include "kernels/elementwise/pointwise.h"

namespace megalith::kernels {
namespace {

struct Nothing {
  int64_t scratch = 0;
};

int runs = 0;
int64_t scratch_given = 0;

std::string_view accept(const Exec&, const Nothing&) { return {}; }
void count_run(Exec& exec, const Nothing&) {
  ++runs;
  scratch_given = exec.scratch_bytes;
}
int64_t scratch_of(const Exec&, const Nothing& a) { return a.scratch; }

constexpr Implementation<Nothing> kList[] = {
    {"gpu", accept, count_run, scratch_of, device::DeviceKind::cuda},
    {"simd", accept, count_run, scratch_of},
};

device::Target cuda() { return {.kind = device::DeviceKind::cuda}; }

TEST(Choose, SeesTheEntriesOfItsKindOfTargetAlone) {
  const auto cpu = device::make_cpu_device(1);
  const auto gpu = device::make_trace_device(cuda());
  EXPECT_EQ(choose<Nothing>(kList, Exec(*cpu), {}).name, "simd");
  EXPECT_EQ(choose<Nothing>(kList, Exec(*gpu), {}).name, "gpu");
}

TEST(Choose, NoKindFallsThroughToTheReferenceOfTheHost) {
  const auto gpu = device::make_trace_device(cuda());
  Exec exec(*gpu);
  const device::Tensor x = exec.workspace.tensor(DType::f32, Shape{8});
  EXPECT_THROW(fill(exec, x, 1), InternalError);
  EXPECT_THROW(add(exec, x, x, x), InternalError);
}

TEST(RunChosen, TakesTheDeclaredScratchForTheCallAndATraceNoMore) {
  for (const bool traced : {false, true}) {
    const auto device =
        traced ? device::make_trace_device({}) : device::make_cpu_device(device::Target{});
    Exec exec(*device);
    runs = 0;
    scratch_given = 0;
    run_chosen<Nothing>(exec, "nothing", {}, kList, {.scratch = 1000});
    EXPECT_EQ(exec.workspace.high_water(), 1024);
    EXPECT_EQ(exec.workspace.in_use(), 0);
    EXPECT_EQ(runs, traced ? 0 : 1);
    EXPECT_EQ(scratch_given, traced ? 0 : 1000);
  }
}

}  // namespace
}  // namespace megalith::kernels
