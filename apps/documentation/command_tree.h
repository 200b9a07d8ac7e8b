// SPDX-License-Identifier: Apache-2.0
// The command line as data, read off its own definition: what completion scripts and man pages are
// made of, so that neither has a list of its own.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace megalith::apps {

/// What an option's value may be: completion offers the choices, file names for text, nothing for
/// numbers.
enum class ValueKind { none, optional, choice, number, text };

struct OptionEntry {
  std::vector<std::string> names;  // "-h", "--help"; of a positional its name alone
  std::string description;         // one line
  std::string range;               // "0 to 1024", or nothing
  std::string default_value;       // or nothing
  std::vector<std::string> choices;
  ValueKind value = ValueKind::none;
  bool positional = false;
  bool required = false;
  bool repeatable = false;
};

struct CommandEntry {
  std::vector<std::string> words;  // "megalith", "bench", "gemm"
  std::string description;         // one line
  std::string examples;            // lines
  std::vector<OptionEntry> options, positionals;
  std::vector<CommandEntry> commands;

  /// The words with `separator` between: "megalith-bench-gemm".
  std::string joined(const std::string& separator) const;
};

/// The whole tree below `app`, whose options have all been declared.
CommandEntry command_tree(const CLI::App& app);

/// `root` and all below it, each before what is below it.
std::vector<const CommandEntry*> all_commands(const CommandEntry& root);

}  // namespace megalith::apps
