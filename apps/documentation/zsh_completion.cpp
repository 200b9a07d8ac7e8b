// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/documentation/completion_scripts.h"

namespace megalith::apps {
namespace {

/// Within '[...]' of a specification in single quotes.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
      continue;
    }
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

/// What _arguments completes a value with.
std::string action(const OptionEntry& option) {
  if (!option.choices.empty()) return fmt::format("({})", fmt::join(option.choices, " "));
  return option.value == ValueKind::text ? "_files" : " ";
}

std::string specification(const OptionEntry& option, const std::string& name) {
  if (option.positional)
    return fmt::format("'{}{}:{}'", option.repeatable ? "*:" : ":", escaped(name), action(option));
  const std::string front = option.repeatable ? "*" : "";
  if (option.value == ValueKind::none || option.value == ValueKind::optional)
    return fmt::format("'{}{}[{}]'", front, name, escaped(option.description));
  return fmt::format("'{}{}=[{}]:{}:{}'", front, name, escaped(option.description),
                     option.value == ValueKind::number ? "number" : "value", action(option));
}

std::string function_of(const CommandEntry& command) {
  std::string text = fmt::format("_{}() {{\n", command.joined("_"));
  if (!command.commands.empty())
    text += "  local context state state_descr line result\n  typeset -A opt_args\n";
  text += "  _arguments";
  if (!command.commands.empty()) text += " -C";
  for (const auto* list : {&command.options, &command.positionals})
    for (const OptionEntry& option : *list)
      for (const std::string& name : option.names)
        text += fmt::format(" \\\n    {}", specification(option, name));
  if (command.commands.empty()) return text + "\n}\n";
  text += " \\\n    '1:command:((";
  for (const CommandEntry& below : command.commands)
    text += fmt::format("{}\\:\"{}\" ", below.words.back(), escaped(below.description));
  text +=
      "))' \\\n    '*:: :->below'\n  result=$?\n  [[ $state == below ]] || return $result\n  case "
      "$line[1] in\n";
  for (const CommandEntry& below : command.commands)
    text += fmt::format("    {}) _{} ;;\n", below.words.back(), below.joined("_"));
  return text + "  esac\n}\n";
}

}  // namespace

std::string zsh_completion(const CommandEntry& root) {
  const std::string& program = root.words[0];
  std::string text = fmt::format(
      "#compdef {0}\n# zsh completion of {0}, made by `{0} completion zsh`.\n", program);
  for (const CommandEntry* command : all_commands(root)) text += function_of(*command);
  // Autoloaded, the file is the function's body; read by `source`, it registers it.
  return text +
         fmt::format(
             "if [[ $funcstack[1] == _{0} ]]; then\n  _{0} \"$@\"\nelse\n  compdef _{0} {0}\nfi\n",
             program);
}

}  // namespace megalith::apps
