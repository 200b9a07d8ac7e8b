// SPDX-License-Identifier: Apache-2.0
#include "settings/fault.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/format.h"

namespace megalith::settings {

std::string one_line(const std::vector<Fault>& faults) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min(faults.size(), kMostFaults); ++i)
    parts.push_back(faults[i].text());
  if (faults.size() > kMostFaults)
    parts.push_back(fmt::format("and {} more", faults.size() - kMostFaults));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string Fault::text() const {
  std::string text;
  for (const std::string* part : {&at.where, &path})
    if (!part->empty()) text += *part + ": ";
  return text + message;
}

}  // namespace megalith::settings
