// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/documentation/completion_scripts.h"

namespace megalith::apps {
namespace {

// The words so far choose the command; bash has cut `--option=value` into three words. What gets no
// answer here is completed as a file name.
constexpr char kScript[] = R"(# bash completion of {program}, made by `{program} completion bash`.
_{program}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
  local command={program} options= words= i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command ${{COMP_WORDS[i]}}" in
      {commands}) command+=" ${{COMP_WORDS[i]}}" ;;
    esac
  done
  if [[ $current == = ]]; then
    current=
  elif [[ $previous == = ]]; then
    previous=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  case "$command $previous" in
{values}  esac
  case $command in
{words}  esac
  [[ $current == -* || ( -z $current && $words == - ) ]] && words=$options
  [[ $words == - ]] && words=
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o bashdefault -o default -F _{program} {program}
)";

std::string command_names(const CommandEntry& root) {
  std::vector<std::string> names;
  for (const CommandEntry* command : all_commands(root))
    if (command != &root) names.push_back("'" + command->joined(" ") + "'");
  return fmt::format("{}", fmt::join(names, " | \\\n      "));
}

/// One line for each option with a value: its choices, or an end, so that a file name is offered.
std::string option_values(const CommandEntry& root) {
  std::string text;
  for (const CommandEntry* command : all_commands(root)) {
    for (const OptionEntry& option : command->options) {
      if (option.value == ValueKind::none || option.value == ValueKind::optional) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : option.names)
        patterns.push_back(fmt::format("'{} {}'", command->joined(" "), name));
      const std::string answer =
          option.choices.empty() ? ""
                                 : fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$current\")); ",
                                               fmt::join(option.choices, " "));
      text += fmt::format("    {}) {}return ;;\n", fmt::join(patterns, " | "), answer);
    }
  }
  return text;
}

/// Of each command its options, and the words that may stand there without a dash: commands, or the
/// choices of a positional. "-" where there are none.
std::string command_words(const CommandEntry& root) {
  std::string text;
  for (const CommandEntry* command : all_commands(root)) {
    std::vector<std::string> options, words;
    for (const OptionEntry& option : command->options)
      options.insert(options.end(), option.names.begin(), option.names.end());
    for (const CommandEntry& below : command->commands) words.push_back(below.words.back());
    for (const OptionEntry& positional : command->positionals)
      words.insert(words.end(), positional.choices.begin(), positional.choices.end());
    if (words.empty() && command->positionals.empty()) words.push_back("-");
    text += fmt::format("    '{}')\n      options='{}'\n      words='{}' ;;\n",
                        command->joined(" "), fmt::join(options, " "), fmt::join(words, " "));
  }
  return text;
}

}  // namespace

std::string bash_completion(const CommandEntry& root) {
  return fmt::format(
      kScript, fmt::arg("program", root.words[0]), fmt::arg("commands", command_names(root)),
      fmt::arg("values", option_values(root)), fmt::arg("words", command_words(root)));
}

}  // namespace megalith::apps
