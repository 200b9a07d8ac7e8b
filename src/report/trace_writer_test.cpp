// SPDX-License-Identifier: Apache-2.0
// The file is read back as JSON; times are compared to the nanosecond.
#include "report/trace_writer.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "report/test_folder.h"

namespace megalith::report {
namespace {

using Json = nlohmann::json;

TEST(TraceWriter, AnEmptyTraceIsAnEmptyArray) {
  const TestFolder folder;
  File file(folder / "trace.json", File::Mode::create_new);
  TraceWriter(file).finish();
  EXPECT_EQ(Json::parse(read_file(folder / "trace.json")), Json::array());
}

TEST(TraceWriter, EventsHaveTheFieldsThatViewersRead) {
  const TestFolder folder;
  File file(folder / "trace.json", File::Mode::create_new);
  TraceWriter trace(file);
  trace.process_name(1, "rank 1");
  trace.thread_name(1, 2, "thread \"2\"\n");
  const std::array<TraceArgument, 3> arguments = {TraceArgument{"flops", int64_t{1} << 60},
                                                  {"share", NAN},
                                                  {"shape", std::string_view("[2, 3]")}};
  trace.complete(1, 2, "kernel", "mat\\mul", 1.0000005, 0.25, arguments);
  trace.instant(1, 2, "step", "begin", 0.5);
  const std::array<TraceArgument, 2> series = {TraceArgument{"weights", int64_t{10}},
                                               {"activations", 2.5}};
  trace.counter(1, "memory", 2, series);
  trace.finish();

  const Json events = Json::parse(read_file(folder / "trace.json"));
  ASSERT_EQ(events.size(), 7u);
  EXPECT_EQ(events[0],
            Json::parse(R"({"name":"process_name","ph":"M","pid":1,"args":{"name":"rank 1"}})"));
  EXPECT_EQ(
      events[1],
      Json::parse(R"({"name":"process_sort_index","ph":"M","pid":1,"args":{"sort_index":1}})"));
  EXPECT_EQ(
      events[2],
      Json::parse(
          R"({"name":"thread_name","ph":"M","pid":1,"tid":2,"args":{"name":"thread \"2\"\n"}})"));
  EXPECT_EQ(events[4], Json::parse(R"({"name":"mat\\mul","cat":"kernel","ph":"X","ts":1000000.5,
      "dur":250000.0,"pid":1,"tid":2,
      "args":{"flops":1152921504606846976,"share":null,"shape":"[2, 3]"}})"));
  EXPECT_EQ(events[5],
            Json::parse(
                R"({"name":"begin","cat":"step","ph":"i","s":"t","ts":500000.0,"pid":1,"tid":2})"));
  EXPECT_EQ(events[6], Json::parse(R"({"name":"memory","ph":"C","ts":2000000.0,"pid":1,)"
                                   R"("args":{"weights":10,"activations":2.5}})"));
}

TEST(TraceWriter, ManyEventsPassTheBufferWhole) {
  const TestFolder folder;
  File file(folder / "trace.json", File::Mode::create_new);
  TraceWriter trace(file);
  for (int i = 0; i < 20000; ++i) trace.complete(0, i % 3, "k", "n\xFF", i * 1e-3, 1e-3);
  trace.finish();
  const std::string text = read_file(folder / "trace.json");
  EXPECT_GT(text.size(), size_t{1} << 20);
  EXPECT_EQ(Json::parse(text).size(), 20000u);
}

TEST(TraceWriter, MistakesOfTheCallerAreFound) {
  const TestFolder folder;
  File file(folder / "trace.json", File::Mode::create_new);
  TraceWriter trace(file);
  EXPECT_THROW(trace.complete(0, 0, "k", "n", NAN, 1), InternalError);
  EXPECT_THROW(trace.complete(0, 0, "k", "n", 0, -1), InternalError);
  trace.finish();
  EXPECT_THROW(trace.instant(0, 0, "k", "n", 0), InternalError);
  EXPECT_THROW(trace.finish(), InternalError);
}

}  // namespace
}  // namespace megalith::report
