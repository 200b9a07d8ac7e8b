// SPDX-License-Identifier: Apache-2.0
// megalith evaluate compare
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/tasks/tasks.h"
#include "evaluate/sample_comparison.h"

namespace megalith::apps {
namespace {

int run(const std::string& first, const std::string& second, bool json) {
  for (const evaluate::MetricComparison& line : evaluate::compare_samples(first, second)) {
    const metrics::PairedDifference& d = line.paired;
    if (json) {
      print_json({{"metric", line.metric},
                  {"filter", line.filter},
                  {"first", line.first},
                  {"second", line.second},
                  {"difference", d.difference},
                  {"stderr", d.error},
                  {"first_better", d.first_better},
                  {"second_better", d.second_better},
                  {"p", d.p},
                  {"examples", line.examples}});
      continue;
    }
    const std::string filter = line.filter == "none" ? "" : fmt::format(" ({})", line.filter);
    fmt::print(
        "{}{}: {:.4f} and {:.4f}, {:+.4f} ± {:.4f}; better on {} and on {} of {}, p = {:.3g}\n",
        line.metric, filter, line.first, line.second, d.difference, d.error, d.first_better,
        d.second_better, line.examples, d.p);
  }
  return 0;
}

}  // namespace

void add_compare(CLI::App& parent, Invocation& invocation) {
  CLI::App& c =
      add_command(parent, invocation, "compare",
                  "the difference of two models on the same documents, with a paired test",
                  "  megalith evaluate compare --first a/samples_piqa_DATE.jsonl --second "
                  "b/samples_piqa_DATE.jsonl\n");
  auto files = std::make_shared<std::pair<std::string, std::string>>();
  c.add_option("--first", files->first, "a samples file of evaluate tasks, or of lm-eval")
      ->required();
  c.add_option("--second", files->second, "another of the same task")->required();
  c.callback([=, &invocation] {
    invocation.run = [=, &invocation] { return run(files->first, files->second, invocation.json); };
  });
}

}  // namespace megalith::apps
