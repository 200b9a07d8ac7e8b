// SPDX-License-Identifier: Apache-2.0
// A command as a process of its own, so that whatever ends it ends nothing else.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace megalith::apps {

/// Runs it, found as the shell finds it, with its output and messages in files, and waits. Empty
/// when it ended with 0; else how it ended: "exit code 2", "signal 9". It ends when this process
/// does. SystemError when no process can be started.
std::string run_process(const std::vector<std::string>& words, const std::filesystem::path& output,
                        const std::filesystem::path& messages);

/// This program.
std::filesystem::path own_program();

}  // namespace megalith::apps
