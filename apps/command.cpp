// SPDX-License-Identifier: Apache-2.0
#include "apps/command.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/one_line.h"

namespace megalith::apps {

int tell(const Failure& failure) {
  // Two paths of the greatest length, and what is said of them.
  constexpr size_t kMostBytes = 3 * 4096;
  // Nobody is left to tell when this fails, and the exit code says it too.
  std::fputs(("megalith: " + one_line(failure.text, kMostBytes) + "\n").c_str(), stderr);
  return static_cast<int>(failure.code);
}

void print_json(const nlohmann::ordered_json& json) {
  // Text from outside may hold anything: broken UTF-8 becomes U+FFFD.
  fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

CLI::Validator whole_number(int64_t low, int64_t high) {
  return CLI::Validator(
      [low, high](const std::string& word) {
        int64_t value = 0;
        const char* const end = word.data() + word.size();
        const auto [stopped, error] = std::from_chars(word.data(), end, value);
        const bool good = error == std::errc() && stopped == end && value >= low && value <= high;
        return good ? std::string()
                    : fmt::format("'{}' is not a whole number from {} to {}", word.substr(0, 40),
                                  low, high);
      },
      "", "whole number");
}

void refuse_infinite_numbers(CLI::App& app) {
  const auto judge = [](const std::string& word) {
    double value = 0;  // the library refuses what is no number
    const bool bad = CLI::detail::lexical_cast(word, value) && !std::isfinite(value);
    return bad ? fmt::format("'{}' is not a finite number", word.substr(0, 40)) : std::string();
  };
  for (CLI::Option* option : app.get_options())
    if (option->get_type_name().starts_with("FLOAT")) option->check(judge);
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; }))
    refuse_infinite_numbers(*command);
}

CLI::App& add_command(CLI::App& parent, Invocation& invocation, const std::string& name,
                      const std::string& description, const std::string& examples) {
  CLI::App& command = *parent.add_subcommand(name, description);
  command.add_flag("--json", invocation.json, "machine output: one JSON object on standard output");
  command.footer("Examples:\n" + examples);
  return command;
}

}  // namespace megalith::apps
