// SPDX-License-Identifier: Apache-2.0
#include "apps/documentation/man_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/version.h"

namespace megalith::apps {
namespace {

constexpr char kExitStatus[] = R"(.SH EXIT STATUS
.TP
0
The work is done.
.TP
1
It failed: the operating system, a device, a library, or a mistake of the program.
.TP
2
An option, a recipe or an input is wrong; the message says which and what to do.
.TP
3
Data or a checkpoint is damaged.
.TP
93
A restart would fail in the same way.
)";

/// Text as roff reads it: no escape, no request at the start of a line, dashes as they are typed.
std::string roff(const std::string& text) {
  std::string result;
  bool at_start = true;
  for (const char c : text) {
    if (at_start && (c == '.' || c == '\'')) result += "\\&";
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else if (c == '\'') {
      result += "\\(aq";
    } else {
      result += c;
    }
    at_start = c == '\n';
  }
  return result;
}

std::string sentence(std::string text) {
  if (!text.empty() && text.back() != '.') text += '.';
  return roff(text);
}

/// "--input TEXT", "--dtype f32|bf16": bold what is typed as it stands, slanted what stands for
/// something else.
std::string spelling(const OptionEntry& option) {
  const std::string bold = option.positional ? "\\fI" : "\\fB";
  std::string text;
  for (const std::string& name : option.names)
    text += fmt::format("{}{}{}\\fR", text.empty() ? "" : ", ", bold, roff(name));
  if (option.positional || option.value == ValueKind::none) return text;
  std::string value;
  for (const std::string& choice : option.choices)
    value += fmt::format("{}\\fB{}\\fR", value.empty() ? "" : "|", roff(choice));
  if (value.empty()) value = option.value == ValueKind::text ? "\\fITEXT\\fR" : "\\fINUMBER\\fR";
  return text + (option.value == ValueKind::optional ? "[=" + value + "]" : " " + value);
}

std::string synopsis(const CommandEntry& command) {
  std::string text = fmt::format(".SH SYNOPSIS\n\\fB{}\\fR", roff(command.joined(" ")));
  if (!command.commands.empty()) text += " \\fICOMMAND\\fR";
  for (const OptionEntry& option : command.options)
    if (option.required) text += " " + spelling(option);
  text += " [\\fIOPTIONS\\fR]";
  for (const OptionEntry& positional : command.positionals) {
    const std::string word = spelling(positional) + (positional.repeatable ? "..." : "");
    text += positional.required ? " " + word : " [" + word + "]";
  }
  return text + "\n";
}

std::string paragraph(const OptionEntry& option) {
  std::string text = fmt::format(".TP\n{}\n", spelling(option));
  text += sentence(option.description.empty() ? option.names.back() : option.description) + "\n";
  if (option.positional && !option.choices.empty())
    text += fmt::format("One of {}.\n", roff(fmt::format("{}", fmt::join(option.choices, ", "))));
  if (!option.range.empty()) text += fmt::format("From {}.\n", roff(option.range));
  if (!option.default_value.empty())
    text += fmt::format("Default: {}.\n", roff(option.default_value));
  if (option.required) text += "Required.\n";
  return text;
}

std::string see_also(const CommandEntry& command, const CommandEntry* parent) {
  std::vector<std::string> pages;
  const auto page = [&](const CommandEntry& entry) {
    pages.push_back(fmt::format(".BR {} (1)", roff(entry.joined("-"))));
  };
  if (parent != nullptr) page(*parent);
  for (const CommandEntry& below : command.commands) page(below);
  return fmt::format(".SH SEE ALSO\n{}\n", fmt::join(pages, ",\n"));
}

}  // namespace

std::string man_page(const CommandEntry& command, const CommandEntry* parent) {
  const std::string name = roff(command.joined("-"));
  std::string text = fmt::format(
      ".\\\" Made by `{} man`, from the options themselves.\n.TH \"{}\" 1 \"{}\" \"megalith {}\" "
      "\"Megalith\"\n",
      command.words[0], name, kVersionDate, kVersion);
  text += fmt::format(".SH NAME\n{} \\- {}\n", name, roff(command.description));
  text += synopsis(command);
  if (!command.commands.empty()) text += ".SH COMMANDS\n";
  for (const CommandEntry& below : command.commands)
    text +=
        fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(below.words.back()), sentence(below.description));
  text += ".SH OPTIONS\n";
  for (const auto* list : {&command.positionals, &command.options})
    for (const OptionEntry& option : *list) text += paragraph(option);
  if (!command.examples.empty())
    text += fmt::format(".SH EXAMPLES\n.EX\n{}.EE\n", roff(command.examples));
  text += kExitStatus;
  return text + see_also(command, parent);
}

}  // namespace megalith::apps
