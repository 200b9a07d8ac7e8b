// SPDX-License-Identifier: Apache-2.0
#include "report/schedule_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "report/test_folder.h"

namespace megalith::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

SchedulePicture picture() {
  return {"two <stages>",
          {"idle & busy"},
          {"stage 0", "stage 1"},
          {{0, 0, 0, false, 0, 1}, {1, 0, 0, false, 1, 2}, {1, 0, 1, true, 2, 4}}};
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(SchedulePage, HasALanePerStageAndABarPerPass) {
  const std::string page = schedule_page(picture());
  EXPECT_EQ(count_of(page, "<rect class=\"lane\""), 2u);
  EXPECT_EQ(count_of(page, "<rect class=\"f\""), 2u);
  EXPECT_EQ(count_of(page, "<rect class=\"b odd\""), 1u);
  EXPECT_THAT(page, HasSubstr("backward of micro-batch 0, chunk 1: 2 to 4"));
}

TEST(SchedulePage, TextsAreEscaped) {
  const std::string page = schedule_page(picture());
  EXPECT_THAT(page, HasSubstr("two &lt;stages&gt;"));
  EXPECT_THAT(page, HasSubstr("idle &amp; busy"));
  EXPECT_THAT(page, Not(HasSubstr("<stages>")));
}

TEST(SchedulePage, IsAChromeTraceToo) {
  const TestFolder folder;
  write_schedule(picture(), folder.path() / "schedule.json");
  const auto events = nlohmann::json::parse(read_file(folder.path() / "schedule.json"));
  int passes = 0;
  double last = 0;
  for (const auto& event : events) {
    if (event.at("ph") != "X") continue;
    ++passes;
    last = std::max(last, event.at("ts").get<double>() + event.at("dur").get<double>());
  }
  EXPECT_EQ(passes, 3);
  EXPECT_EQ(last, 4e6);
}

}  // namespace
}  // namespace megalith::report
