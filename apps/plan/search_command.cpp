// SPDX-License-Identifier: Apache-2.0
#include "apps/plan/search_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/plan/search_page.h"
#include "apps/plan/search_text.h"
#include "base/error.h"
#include "base/file.h"
#include "search/layout_search.h"

namespace megalith::apps {

void add_search(PlanModes& modes, const std::shared_ptr<RunSize>& run,
                std::function<int(const SearchCommand&, bool)> answer) {
  auto o = std::make_shared<SearchCommand>();
  o->run = run;
  CLI::Option* const mode = modes.add(
      "--search",
      "rank all layouts of the recipe's model and batch on a cluster, by predicted time",
      [o, answer = std::move(answer)](bool json) {
        if (o->run->cluster.empty())
          throw UserError("plan --search needs --cluster FILE (recipes/clusters)");
        return answer(*o, json);
      },
      true);
  modes.option(mode, "--cluster", run->cluster,
               "the machines: a file like recipes/clusters/h100.yaml");
  modes.option(mode, "--gpus", run->gpus, "how many GPUs there are (--search: all of the cluster)")
      ->check(whole_number(1, 100'000'000));
  modes.option(mode, "--top", o->top, "how many to show")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  modes.flag(mode, "--fp8", o->fp8, "also try products in 8 bits, which change the result");
  modes.option(mode, "--csv", o->csv, "write the ranking as a table");
  modes.option(mode, "--output", run->output,
               "write a whole recipe: with the best layout (--search), or with the first that fits "
               "by its planned memory (--budget)");
  modes.option(mode, "--html", o->html, "write a page: ranking, timeline, memory, trade-offs");
}

int run_search(const SearchCommand& command, const config::Recipe& recipe,
               const engine::Settings& settings, account::BesideSteps beside, bool json) {
  const clusters::Cluster cluster = clusters::load_cluster(command.run->cluster);
  // Where devices have memory of their own, snapshots of saves lie in the host's.
  if (cluster.node.host_memory > 0) beside.snapshot = false;
  search::SearchOptions options;
  options.devices = command.run->gpus;
  options.top = static_cast<size_t>(command.top);
  options.also_fp8 = command.fp8;
  options.beside = beside;
  options.progress = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  const search::SearchResult result = search::search_layouts(settings, cluster, options);
  const SearchReport report{recipe, settings, cluster, result};
  if (!command.csv.empty()) write_file_durable(command.csv, search_csv(report));
  if (!command.run->output.empty()) {
    const search::Candidate& best = result.best.front();
    write_file_durable(
        command.run->output,
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
