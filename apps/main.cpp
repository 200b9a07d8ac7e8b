// SPDX-License-Identifier: Apache-2.0
// megalith: one program for the whole life of a language model. This file reads the command line,
// runs the chosen subcommand, and turns failures into one line and an exit code.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/version.h"
#include "base/failure.h"
#include "base/nearest.h"

namespace {

using megalith::ExitCode;

/// The command that the words so far chose.
const CLI::App& chosen(const CLI::App& app) {
  const auto used = app.get_subcommands();
  return used.empty() ? app : chosen(*used.front());
}

/// "; for --chekpoint, did you mean --checkpoint?" for words that are no option or command of the
/// chosen one.
std::string hint(const CLI::App& app) {
  const CLI::App& command = chosen(app);
  const std::vector<std::string> unknown = command.remaining(false);
  std::vector<std::string> known;
  const bool is_option = !unknown.empty() && unknown.front().starts_with("-");
  if (is_option) {
    for (const CLI::Option* option : command.get_options())
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  } else {
    for (const CLI::App* sub : command.get_subcommands(nullptr)) known.push_back(sub->get_name());
  }
  if (unknown.empty() || known.empty()) return "";
  const std::string word =
      unknown.front().substr(0, std::min<size_t>(unknown.front().find('='), 64));
  return fmt::format("; for {}, did you mean {}?", word, megalith::nearest(word, known));
}

/// A closed standard stream's number must not go to a file, or messages would be written into it.
/// Opened for reading alone, so that writing to it still fails.
void occupy_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) == -1 && errno == EBADF && ::open("/dev/null", O_RDONLY) != fd) return;
  }
}

int run(const megalith::apps::Invocation& invocation) {
  try {
    const int code = invocation.run();
    if (std::fflush(stdout) != 0)
      return megalith::apps::tell({ExitCode::failure, "cannot write to standard output"});
    return code;
  } catch (...) {
    return megalith::apps::tell(megalith::failure_of(std::current_exception()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  // A closed reader, a full quota: errors of write(), not the end of a run.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  occupy_standard_streams();
  using namespace megalith::apps;
  CLI::App app{
      "Megalith: a language model's whole life in one program: tokenizer, pack, train, evaluate, "
      "generate, serve.",
      "megalith"};
  app.set_version_flag("--version", std::string("megalith ") + kVersion);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  megalith tokenizer train --input text.txt --vocab-size 8192 --output tokenizer.json\n"
      "  megalith pack --tokenizer tokenizer.json --input text.txt --output data/text\n"
      "  megalith train recipes/demo.yaml --set run.out=runs/first\n"
      "  megalith generate --checkpoint runs/first --prompt \"Once upon a time\" --max-new-tokens "
      "100\n");
  Invocation invocation;
  add_tokenizer(app, invocation);
  add_pack(app, invocation);
  add_train(app, invocation);
  add_tune(app, invocation);
  add_generate(app, invocation);
  add_serve(app, invocation);
  add_evaluate(app, invocation);
  add_plan(app, invocation);
  add_convert(app, invocation);
  add_report(app, invocation);
  add_bench(app, invocation);
  add_doctor(app, invocation);
  add_completion(app, invocation);
  add_man(app, invocation);
  refuse_infinite_numbers(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);  // --help, --version
  } catch (const CLI::ParseError& error) {
    return tell(
        {ExitCode::usage, fmt::format("{}{}; try megalith --help", error.what(), hint(app))});
  }
  return run(invocation);
}
