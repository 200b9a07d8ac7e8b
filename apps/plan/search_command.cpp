// SPDX-License-Identifier: Apache-2.0
#include "apps/plan/search_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/plan/search_page.h"
#include "apps/plan/search_text.h"
#include "base/file.h"
#include "search/layout_search.h"

namespace megalith::apps {

void SearchCommand::declare(CLI::App& c, const std::vector<CLI::Option*>& others) {
  CLI::Option* const search = c.add_flag(
      "--search", wanted,
      "rank all layouts of the recipe's model and batch on a cluster, by predicted time");
  for (CLI::Option* const other : others) search->excludes(other);
  CLI::Option* const file =
      c.add_option("--cluster", cluster, "description of the machines (recipes/clusters/*.yaml)");
  search->needs(file);
  file->needs(search);
  const auto option = [&](const char* name, auto& value, const char* what) {
    return c.add_option(name, value, what)->needs(search);
  };
  option("--gpus", gpus, "devices to use; default: all of the cluster")
      ->check(whole_number(1, 1 << 24));
  option("--top", top, "how many to show")->check(whole_number(1, 1000))->capture_default_str();
  c.add_flag("--fp8", fp8, "also try products in 8 bits, which change the result")->needs(search);
  option("--csv", csv, "write the ranking as a table");
  option("--output", output, "write the best as a complete recipe");
  option("--html", html, "write a page: ranking, timeline, memory, trade-offs");
}

int run_search(const SearchCommand& command, const config::Recipe& recipe,
               const engine::Settings& settings, account::BesideSteps beside, bool json) {
  const clusters::Cluster cluster = clusters::load_cluster(command.cluster);
  // Where devices have memory of their own, snapshots of saves lie in the host's.
  if (cluster.node.host_memory > 0) beside.snapshot = false;
  search::SearchOptions options;
  options.devices = command.gpus;
  options.top = static_cast<size_t>(command.top);
  options.also_fp8 = command.fp8;
  options.beside = beside;
  options.progress = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  const search::SearchResult result = search::search_layouts(settings, cluster, options);
  const SearchReport report{recipe, settings, cluster, result};
  if (!command.csv.empty()) write_file_durable(command.csv, search_csv(report));
  if (!command.output.empty()) {
    const search::Candidate& best = result.best.front();
    write_file_durable(
        command.output,
        fmt::format("# {}: {:.4g} s a step predicted on {}, {} devices\n{}", best.point.text(),
                    best.time.seconds, cluster.name, result.devices,
                    config::to_yaml(search::recipe_at(recipe, best.point))));
  }
  if (!command.html.empty()) write_search_page(report, beside, command.html);
  if (json) {
    print_json(search_json(report));
  } else {
    fmt::print("{}", search_text(report));
  }
  return 0;
}

}  // namespace megalith::apps
