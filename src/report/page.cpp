// SPDX-License-Identifier: Apache-2.0
// Assembly: text and tables are made here as HTML, so that they are there without scripts, in print
// and for search; the charts are drawn by page.js from one block of JSON.
#include "report/page.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "report/chart_data.h"
#include "report/html.h"
#include "report/page_template.h"
#include "report/sections.h"

namespace megalith::report {

namespace fs = std::filesystem;

namespace {

std::string read_chart_js(const std::vector<fs::path>& paths) {
  for (const fs::path& path : paths) {
    if (fs::exists(path)) return read_file(path);
  }
  throw UserError(
      "Chart.js, which draws the report's curves, is not installed; install the package "
      "libjs-chart.js (looked for {})",
      paths.empty() ? "nothing" : paths.front().string() + " and others");
}

}  // namespace

std::vector<fs::path> chart_js_paths() {
  std::vector<fs::path> paths;
  std::string_view rest = MEGA_CHART_JS;
  while (!rest.empty()) {
    const size_t bar = std::min(rest.find('|'), rest.size());
    if (bar > 0) paths.emplace_back(rest.substr(0, bar));
    rest.remove_prefix(std::min(bar + 1, rest.size()));
  }
  return paths;
}

std::string render_page(const RunRecord& record, const std::string& folder_name,
                        const std::string& chart_js) {
  auto hidden_if = [](bool empty) { return std::string(empty ? "hidden" : ""); };
  const std::string samples = samples_html(record);
  const std::string memory = memory_html(record);
  const std::string accounts = accounts_html(record);
  const std::string tasks = tasks_html(record);
  const std::string provenance = provenance_html(record);
  const bool none = record.steps.empty();
  return fill_template(kPageHtml, {{"title", escape_html(run_title(record, folder_name))},
                                   {"css", std::string(kPageCss)},
                                   {"started", started_html(record)},
                                   {"header", header_html(record)},
                                   {"notices", notices_html(record)},
                                   {"tiles", tiles_html(record)},
                                   {"no_steps", hidden_if(!none)},
                                   {"has_steps", hidden_if(none)},
                                   {"memory", memory},
                                   {"has_memory", hidden_if(memory.empty())},
                                   {"accounts", accounts},
                                   {"has_accounts", hidden_if(accounts.empty())},
                                   {"numbers", numbers_html(record)},
                                   {"provenance", provenance},
                                   {"has_provenance", hidden_if(provenance.empty())},
                                   {"tasks", tasks},
                                   {"has_tasks", hidden_if(tasks.empty())},
                                   {"samples", samples},
                                   {"has_samples", hidden_if(samples.empty())},
                                   {"recipe", escape_html(record.recipe)},
                                   {"data", escape_json_for_script(chart_data(record))},
                                   {"chart_js", escape_script(chart_js)},
                                   {"js", escape_script(kPageJs)}});
}

fs::path write_report(const fs::path& run_folder, const std::vector<fs::path>& chart_js) {
  const RunRecord record = read_run(run_folder);
  const std::string name = fs::weakly_canonical(run_folder).filename().string();
  const fs::path path = run_folder / "report.html";
  write_file_durable(path, render_page(record, name, read_chart_js(chart_js)));
  return path;
}

}  // namespace megalith::report
