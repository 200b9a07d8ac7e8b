// SPDX-License-Identifier: Apache-2.0
// Where the run's wall time went, as the run itself kept accounts of it.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "report/html.h"
#include "report/quantity.h"
#include "report/sections.h"

namespace megalith::report {

std::string accounts_html(const RunRecord& record) {
  const nlohmann::ordered_json::json_pointer where("/accounts/buckets");
  if (!record.run.contains(where)) return "";
  const auto& buckets = record.run[where];
  double total = 0;
  for (const auto& [name, seconds] : buckets.items()) {
    if (!seconds.is_number()) {
      throw IntegrityError("{}: /accounts/buckets/{} is not a number", record.run_path.string(),
                           name);
    }
    total += seconds.get<double>();
  }
  std::string out;
  const auto add = [&](std::string name, double seconds, bool sum) {
    std::replace(name.begin(), name.end(), '_', ' ');
    const double share = total > 0 ? 100 * seconds / total : 0;
    out += fmt::format(
        "<tr{}><th scope=\"row\">{}</th><td class=\"number\">{}<small>{:.3f} s</small></td>"
        "<td class=\"number\">{:.1f} %</td></tr>\n",
        sum ? " class=\"total\"" : "", escape_html(name), human_seconds(seconds), seconds, share);
  };
  for (const auto& [name, seconds] : buckets.items()) {
    if (seconds.get<double>() > 0) add(name, seconds.get<double>(), false);
  }
  if (total > 0) add("total", total, true);
  return out;
}

}  // namespace megalith::report
