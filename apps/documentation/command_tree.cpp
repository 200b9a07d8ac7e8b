// SPDX-License-Identifier: Apache-2.0
#include "apps/documentation/command_tree.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace megalith::apps {
namespace {

/// The library describes a value as its type and its checks: "TEXT:{f32,bf16}",
/// "INT:INT in [0 - 1024]".
void read_value(const std::string& type, OptionEntry& entry) {
  const size_t choices = type.find(":{"), range = type.find(" in [");
  if (choices != std::string::npos) {
    entry.value = ValueKind::choice;
    entry.choices =
        CLI::detail::split(type.substr(choices + 2, type.rfind('}') - choices - 2), ',');
  } else {
    const bool is_number =
        type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT");
    entry.value = is_number ? ValueKind::number : ValueKind::text;
  }
  if (range != std::string::npos) {
    const std::string between = type.substr(range + 5, type.rfind(']') - range - 5);
    const size_t dash = between.find(" - ");
    entry.range = between.substr(0, dash) + " to " + between.substr(dash + 3);
  }
}

OptionEntry option_entry(const CLI::Option& option) {
  OptionEntry entry;
  entry.positional = option.get_positional();
  if (entry.positional) {
    entry.names.push_back(option.get_name(true));
  } else {
    for (const std::string& name : option.get_snames()) entry.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) entry.names.push_back("--" + name);
  }
  entry.description = option.get_description();
  entry.required = option.get_required();
  entry.repeatable = option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll ||
                     option.get_items_expected_max() > 1;
  if (option.get_items_expected_max() == 0) return entry;  // a flag
  read_value(option.get_type_name(), entry);
  entry.default_value = option.get_default_str();
  if (option.get_items_expected_min() == 0) entry.value = ValueKind::optional;
  return entry;
}

CommandEntry command_entry(const CLI::App& app, std::vector<std::string> words) {
  words.push_back(app.get_name());
  CommandEntry entry;
  entry.words = words;
  entry.description = app.get_description();
  entry.examples = app.get_footer();
  if (const size_t line = entry.examples.find('\n'); entry.examples.starts_with("Examples:"))
    entry.examples = entry.examples.substr(line + 1);
  for (const CLI::Option* option : app.get_options())
    (option->get_positional() ? entry.positionals : entry.options).push_back(option_entry(*option));
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    entry.commands.push_back(command_entry(*command, words));
  return entry;
}

void append(const CommandEntry& entry, std::vector<const CommandEntry*>& all) {
  all.push_back(&entry);
  for (const CommandEntry& command : entry.commands) append(command, all);
}

}  // namespace

std::string CommandEntry::joined(const std::string& separator) const {
  return fmt::format("{}", fmt::join(words, separator));
}

CommandEntry command_tree(const CLI::App& app) { return command_entry(app, {}); }

std::vector<const CommandEntry*> all_commands(const CommandEntry& root) {
  std::vector<const CommandEntry*> all;
  append(root, all);
  return all;
}

}  // namespace megalith::apps
