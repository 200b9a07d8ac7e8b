// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/documentation/completion_scripts.h"

namespace megalith::apps {
namespace {

constexpr char kHead[] = R"(# fish completion of {program}, made by `{program} completion fish`.
function __{program}_at --description 'whether the words so far chose just this command'
    set -l chosen {program}
    for word in (commandline -opc)[2..-1]
        switch "$chosen $word"
            case {commands}
                set chosen "$chosen $word"
        end
    end
    test "$chosen" = "$argv"
end
)";

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') result += '\\';
    result += c;
  }
  return result + "'";
}

std::string line(const CommandEntry& command, const std::string& rest, const std::string& what) {
  return fmt::format("complete -c {} -n '__{}_at {}' {} -d {}\n", command.words[0],
                     command.words[0], command.joined(" "), rest, quoted(what));
}

std::string value(const OptionEntry& option) {
  switch (option.value) {
    case ValueKind::choice:
      return fmt::format(" -x -a {}", quoted(fmt::format("{}", fmt::join(option.choices, " "))));
    case ValueKind::number:
      return " -x";
    case ValueKind::text:
      return " -r -F";
    case ValueKind::none:
    case ValueKind::optional:
      break;
  }
  return "";
}

std::string lines_of(const CommandEntry& command) {
  std::string text;
  if (command.positionals.empty())  // no file names where no word stands alone
    text += fmt::format("complete -c {0} -n '__{0}_at {1}' -f\n", command.words[0],
                        command.joined(" "));
  for (const OptionEntry& option : command.options) {
    std::string names;
    for (const std::string& name : option.names) {
      const bool is_long = name.starts_with("--");
      names += (names.empty() ? "" : " ") +
               fmt::format("{} {}", is_long ? "-l" : "-s", name.substr(is_long ? 2 : 1));
    }
    text += line(command, names + value(option), option.description);
  }
  for (const OptionEntry& positional : command.positionals)
    if (!positional.choices.empty())
      text += line(command, value(positional).substr(1), positional.description);
  for (const CommandEntry& below : command.commands)
    text += line(command, "-f -a " + below.words.back(), below.description);
  return text;
}

}  // namespace

std::string fish_completion(const CommandEntry& root) {
  std::vector<std::string> names;
  for (const CommandEntry* command : all_commands(root))
    if (command != &root) names.push_back(quoted(command->joined(" ")));
  std::string text = fmt::format(kHead, fmt::arg("program", root.words[0]),
                                 fmt::arg("commands", fmt::join(names, " \\\n                ")));
  for (const CommandEntry* command : all_commands(root)) text += lines_of(*command);
  return text;
}

}  // namespace megalith::apps
