// SPDX-License-Identifier: Apache-2.0
#include "apps/command.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

namespace megalith::apps {

void print_json(const nlohmann::ordered_json& json) {
  // Text from outside may hold anything: broken UTF-8 becomes U+FFFD.
  fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

CLI::App& add_command(CLI::App& parent, Invocation& invocation, const std::string& name,
                      const std::string& description, const std::string& examples) {
  CLI::App& command = *parent.add_subcommand(name, description);
  command.add_flag("--json", invocation.json, "machine output: one JSON object on standard output");
  command.footer("Examples:\n" + examples);
  return command;
}

}  // namespace megalith::apps
