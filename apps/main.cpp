// SPDX-License-Identifier: Apache-2.0
// megalith: one program for the whole life of a language model. This file reads the command line,
// runs the chosen subcommand, and turns failures into one line and an exit code.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <new>

#include "apps/command.h"
#include "apps/version.h"
#include "base/error.h"

namespace {

using megalith::ExitCode;

int fail(ExitCode code, const std::string& message) {
  // One line, whatever the message holds.
  std::string line = message;
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  fmt::print(stderr, "megalith: {}\n", line);
  return static_cast<int>(code);
}

int run(const megalith::apps::Invocation& invocation) {
  try {
    const int code = invocation.run();
    if (std::fflush(stdout) != 0) return fail(ExitCode::failure, "cannot write to standard output");
    return code;
  } catch (const megalith::Error& error) {
    return fail(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(ExitCode::failure,
                "out of memory; close other programs or use a smaller model or batch");
  } catch (const std::exception& error) {
    return fail(ExitCode::failure, error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed reader is an error of write(), not the end of a run
  using namespace megalith::apps;
  CLI::App app{
      "Megalith: a language model's whole life in one program: tokenizer, pack, train, evaluate, "
      "generate.",
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
  add_generate(app, invocation);
  add_evaluate(app, invocation);
  add_plan(app, invocation);
  add_convert(app, invocation);
  add_report(app, invocation);
  add_bench(app, invocation);
  add_doctor(app, invocation);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);  // --help, --version
  } catch (const CLI::ParseError& error) {
    return fail(ExitCode::usage, std::string(error.what()) + "; try megalith --help");
  }
  return run(invocation);
}
