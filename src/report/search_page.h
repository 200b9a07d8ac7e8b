// SPDX-License-Identifier: Apache-2.0
// A search over layouts as one page without scripts, to be mailed and opened without a network: the
// ranking with what each step is made of, the schedule of the best, its memory by stage, time
// against memory, and what a little more of something would buy.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "report/schedule_page.h"

namespace megalith::report {

struct SearchPageRow {
  std::string layout;
  double seconds = 0, mfu = 0, gib = 0;
  std::vector<double> parts;  // seconds, of SearchPage::parts
};

struct SearchPageStage {
  std::string name;
  std::vector<double> gib;  // of SearchPage::classes
};

struct SearchPagePoint {
  double seconds = 0, gib = 0;
  std::string layout;
  bool best = false;  // among the rows
};

struct SearchPageChange {
  std::string change;
  double seconds = 0;
};

struct SearchPage {
  std::string title;
  std::vector<std::string> facts;       // lines under it
  std::vector<std::string> parts;       // names
  std::vector<SearchPageRow> rows;      // best first, at least one
  SchedulePicture schedule;             // of the best
  std::vector<std::string> classes;     // names
  std::vector<SearchPageStage> stages;  // of the best
  double limit_gib = 0;                 // of a device
  std::vector<SearchPagePoint> points;  // time against memory, at least one
  std::vector<SearchPageChange> changes;
  std::vector<std::string> refusals, assumptions;
};

/// Every text is escaped.
std::string search_page(const SearchPage& page);
/// Replaces the file as a whole.
void write_search_page(const SearchPage& page, const std::filesystem::path& path);

}  // namespace megalith::report
