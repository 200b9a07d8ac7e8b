// SPDX-License-Identifier: Apache-2.0
// megalith report
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "report/page.h"

namespace megalith::apps {

void add_report(CLI::App& app, Invocation& invocation) {
  CLI::App& c = add_command(app, invocation, "report", "a run folder to one HTML page",
                            "  megalith report runs/demo\n");
  auto folder = std::make_shared<std::string>();
  c.add_option("run", *folder, "run folder")->required();
  c.callback([folder, &invocation] {
    invocation.run = [folder, &invocation] {
      const std::string path = report::write_report(*folder).string();
      if (invocation.json) {
        print_json({{"html", path}});
      } else {
        fmt::print(stderr, "{}\n", path);
      }
      return 0;
    };
  });
}

}  // namespace megalith::apps
