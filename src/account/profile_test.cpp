// SPDX-License-Identifier: Apache-2.0
#include "account/profile.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "report/test_folder.h"

namespace megalith::account {
namespace {

constexpr Roofline kRoofline{100, 10};

/// Two layers; an outer call of 5 s with one of 2 s inside.
device::Recorder two_layers() {
  device::Recorder recorder;
  recorder.keep_events();
  recorder.push_scope("layers");
  for (const char* layer : {"0", "11"}) {
    recorder.push_scope(layer);
    recorder.open();
    recorder.add("inner", {.flops = 100}, 11, 2);
    recorder.close("outer", {.bytes_read = 20, .bytes_written = 10}, 10, 5);
    recorder.pop_scope();
  }
  recorder.pop_scope();
  return recorder;
}

TEST(Profile, a_call_does_not_count_the_time_of_calls_inside_it) {
  const Profile profile = profile_of(two_layers(), 2, 12, kRoofline);
  ASSERT_EQ(profile.by_kernel.size(), 2u);
  EXPECT_EQ(profile.by_kernel[0].name, "outer");
  EXPECT_EQ(profile.by_kernel[0].seconds, 6);
  EXPECT_EQ(profile.by_kernel[1].seconds, 4);
  EXPECT_EQ(profile.gap_seconds, 2);
}

TEST(Profile, the_roofline_is_the_slower_of_arithmetic_and_memory) {
  const Profile profile = profile_of(two_layers(), 2, 12, kRoofline);
  EXPECT_EQ(profile.by_kernel[0].least_seconds, 6);  // 2 x 30 bytes at 10 per second
  EXPECT_EQ(profile.by_kernel[1].least_seconds, 2);  // 2 x 100 FLOPs at 100 per second
  EXPECT_EQ(profile.least_seconds, 8);
}

TEST(Profile, layers_are_taken_together) {
  const Profile profile = profile_of(two_layers(), 1, 12, kRoofline);
  ASSERT_EQ(profile.by_part.size(), 1u);
  EXPECT_EQ(profile.by_part[0].name, "layers.*");
  EXPECT_EQ(profile.by_part[0].calls, 4);
  EXPECT_THAT(to_text(profile, kRoofline), ::testing::HasSubstr("outer"));
}

TEST(Profile, a_trace_holds_every_event_from_time_zero) {
  const report::TestFolder folder;
  write_trace(two_layers(), folder / "trace.json");
  const auto events = nlohmann::json::parse(read_file(folder / "trace.json"));
  int calls = 0;
  double first = 1e9;
  for (const auto& event : events) {
    if (event.at("ph") != "X") continue;
    ++calls;
    first = std::min(first, event.at("ts").get<double>());
  }
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(first, 0);
}

}  // namespace
}  // namespace megalith::account
