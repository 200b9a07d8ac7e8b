// SPDX-License-Identifier: Apache-2.0
#include "report/search_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace megalith::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

SearchPage small() {
  SearchPage page;
  page.title = "two <layouts>";
  page.facts = {"1,024 devices & more"};
  page.parts = {"compute", "bubble"};
  page.rows = {{"tensor 2", 1.5, 0.5, 40, {1.2, 0.3}}, {"tensor 4", 2.0, 0.4, 20, {1.5, 0.5}}};
  page.schedule = {"1F1B", {}, {"stage 0"}, {{0, 0, 0, false, 0, 1}, {0, 0, 0, true, 1, 3}}};
  page.classes = {"weights", "activations"};
  page.stages = {{"stage 0", {30, 10}}};
  page.limit_gib = 77;
  page.points = {{1.5, 40, "tensor 2", true}, {2.0, 20, "tensor 4", false}};
  page.changes = {{"more memory", 1.2}};
  page.refusals = {"3 x memory"};
  page.assumptions = {"a launch takes time"};
  return page;
}

TEST(SearchPage, ShowsEveryPart) {
  const std::string html = search_page(small());
  for (const char* part :
       {"two &lt;layouts&gt;", "1,024 devices &amp; more", "50.0 %", "tensor 4", "1F1B", "stage 0",
        "weights: 30 GiB", "bubble: 0.3 s", "more memory", "20.00 %", "3 x memory",
        "a launch takes time", "class=\"limit\"", "pt best"})
    EXPECT_THAT(html, HasSubstr(part)) << part;
}

/// It opens without a network, and runs nothing.
TEST(SearchPage, LoadsNothing) {
  const std::string html = search_page(small());
  for (const char* part : {"<script", "http://", "https://", "url(", "<img", "{{"})
    EXPECT_THAT(html, Not(HasSubstr(part))) << part;
}

}  // namespace
}  // namespace megalith::report
