// SPDX-License-Identifier: Apache-2.0
// What every subcommand shares: where its result goes and how it is chosen. A subcommand is one
// function that declares its options and what to run; it only joins rooms.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/failure.h"

namespace megalith::apps {

/// Filled while the command line is read; `run` is the chosen subcommand's work and gives the exit
/// code.
struct Invocation {
  bool json = false;
  std::function<int()> run;
};

/// The failure as one line on standard error; gives its exit code.
int tell(const Failure& failure);

/// One line of JSON on standard output.
void print_json(const nlohmann::ordered_json& json);

/// Declares a subcommand with its --json flag and its examples.
CLI::App& add_command(CLI::App& parent, Invocation& invocation, const std::string& name,
                      const std::string& description, const std::string& examples);

/// Accepts whole numbers from `low` to `high` written in decimal digits. (The library's own
/// conversion takes -1 for an unsigned and cuts what is too large to the largest.)
CLI::Validator whole_number(int64_t low, int64_t high = std::numeric_limits<int64_t>::max());
/// Makes all options of floating-point numbers refuse "nan", "inf" and 1e999, which the library
/// takes (CLI::Range lets NaN through). To be called once all commands are declared.
void refuse_infinite_numbers(CLI::App& app);

void add_tokenizer(CLI::App& app, Invocation& invocation);
void add_tokenizer_convert(CLI::App& parent, Invocation& invocation);  // of the tokenizer command
void add_pack(CLI::App& app, Invocation& invocation);
void add_train(CLI::App& app, Invocation& invocation);
void add_tune(CLI::App& app, Invocation& invocation);
void add_generate(CLI::App& app, Invocation& invocation);
void add_serve(CLI::App& app, Invocation& invocation);
void add_evaluate(CLI::App& app, Invocation& invocation);
void add_plan(CLI::App& app, Invocation& invocation);
void add_convert(CLI::App& app, Invocation& invocation);
void add_report(CLI::App& app, Invocation& invocation);
void add_bench(CLI::App& app, Invocation& invocation);
void add_doctor(CLI::App& app, Invocation& invocation);
void add_completion(CLI::App& app, Invocation& invocation);
void add_man(CLI::App& app, Invocation& invocation);

}  // namespace megalith::apps
