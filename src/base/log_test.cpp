// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace megalith {
namespace {

TEST(Log, WritesToStandardErrorWhatTheLevelLetsThrough) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  const log::Level before = log::level();
  log::set_level(log::Level::warning);
  EXPECT_EQ(log::level(), log::Level::warning);
  log::debug("one {}", 1);
  log::info("two {}", 2);
  log::warning("three {}", 3);
  log::error("braces {} {{}}", "{}");
  log::error("forged\n12:00:00 error line");
  log::set_level(log::Level::debug);
  log::debug("five");
  log::set_level(before);
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_THAT(lines, testing::MatchesRegex("[0-9:]+ warning three 3\n"
                                           "[0-9:]+ error braces \\{\\} \\{\\}\n"
                                           "[0-9:]+ error forged 12:00:00 error line\n"
                                           "[0-9:]+ debug five\n"));
}

}  // namespace
}  // namespace megalith
