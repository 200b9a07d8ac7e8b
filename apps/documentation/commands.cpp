// SPDX-License-Identifier: Apache-2.0
// megalith completion, megalith man: the command line for shells and for manuals.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "apps/documentation/completion_scripts.h"
#include "apps/documentation/man_page.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/nearest.h"

namespace megalith::apps {
namespace {

void print(const std::string& text, const char* key, bool json) {
  if (json) {
    print_json({{key, text}});
  } else {
    fmt::print("{}", text);
  }
}

/// The page of the command that `words` choose.
std::string page_of(const CommandEntry& root, const std::vector<std::string>& words) {
  const CommandEntry* chosen = &root;
  const CommandEntry* parent = nullptr;
  for (const std::string& word : words) {
    std::vector<std::string> known;
    const CommandEntry* next = nullptr;
    for (const CommandEntry& command : chosen->commands) {
      known.push_back(command.words.back());
      if (known.back() == word) next = &command;
    }
    if (next == nullptr) {
      const std::string hint =
          known.empty() ? ""
                        : fmt::format("; did you mean {}?", nearest(word.substr(0, 64), known));
      throw UserError("{} has no command {}{}", chosen->joined(" "), word.substr(0, 64), hint);
    }
    parent = chosen;
    chosen = next;
  }
  return man_page(*chosen, parent);
}

/// Writes the pages of `command` and of all below it; gives their paths.
void write_pages(const CommandEntry& command, const CommandEntry* parent,
                 const std::filesystem::path& folder, std::vector<std::string>& paths) {
  const auto path = folder / (command.joined("-") + ".1");
  write_file_durable(path, man_page(command, parent));
  paths.push_back(path.string());
  for (const CommandEntry& below : command.commands) write_pages(below, &command, folder, paths);
}

struct ManOptions {
  std::vector<std::string> command;
  std::string output;
};

int man(const CommandEntry& root, const ManOptions& o, bool json) {
  if (o.output.empty()) {
    print(page_of(root, o.command), "page", json);
    return 0;
  }
  make_folders(o.output);
  std::vector<std::string> paths;
  write_pages(root, nullptr, o.output, paths);
  if (json) print_json({{"pages", paths}});
  return 0;
}

}  // namespace

void add_completion(CLI::App& app, Invocation& invocation) {
  CLI::App& c =
      add_command(app, invocation, "completion", "a script that completes commands in a shell",
                  "  source <(megalith completion bash)\n"
                  "  megalith completion zsh > ~/.zfunc/_megalith\n"
                  "  megalith completion fish > ~/.config/fish/completions/megalith.fish\n");
  auto shell = std::make_shared<std::string>();
  c.add_option("shell", *shell, "the shell that reads the script")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->required();
  c.callback([&app, shell, &invocation] {
    invocation.run = [&app, shell, &invocation] {
      const CommandEntry root = command_tree(app);
      const auto script = *shell == "bash"  ? bash_completion
                          : *shell == "zsh" ? zsh_completion
                                            : fish_completion;
      print(script(root), "script", invocation.json);
      return 0;
    };
  });
}

void add_man(CLI::App& app, Invocation& invocation) {
  CLI::App& c = add_command(app, invocation, "man", "the manual page of a command, in roff",
                            "  megalith man train | man -l -\n"
                            "  megalith man bench gemm | mandoc\n"
                            "  megalith man --output ~/.local/share/man/man1\n");
  auto o = std::make_shared<ManOptions>();
  CLI::Option* const command =
      c.add_option("command", o->command, "words of the command; none: the program itself");
  c.add_option("--output", o->output, "folder to write the pages of all commands to")
      ->excludes(command);
  c.callback([&app, o, &invocation] {
    invocation.run = [&app, o, &invocation] { return man(command_tree(app), *o, invocation.json); };
  });
}

}  // namespace megalith::apps
