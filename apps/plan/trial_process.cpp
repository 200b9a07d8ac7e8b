// SPDX-License-Identifier: Apache-2.0
#include "apps/plan/trial_process.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/interrupted.h"

namespace megalith::apps {

std::filesystem::path own_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

std::string run_process(const std::vector<std::string>& words, const std::filesystem::path& output,
                        const std::filesystem::path& messages) {
  const File out(output, File::Mode::create_or_truncate);
  const File err(messages, File::Mode::create_or_truncate);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw SystemError("fork for {}: {}", words.front(), std::strerror(errno));
  if (child == 0) {  // nothing but system calls until exec: other threads hold locks
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent || ::dup2(out.fd(), 1) < 0 || ::dup2(err.fd(), 2) < 0) ::_exit(127);
    ::execvp(arguments.front(), arguments.data());
    constexpr char kNone[] = "megalith: cannot be started: no such program\n";
    [[maybe_unused]] const ssize_t said = ::write(2, kNone, sizeof(kNone) - 1);
    ::_exit(127);
  }
  int status = 0;
  if (retry([&] { return ::waitpid(child, &status, 0); }) < 0)
    throw SystemError("waitpid for {}: {}", words.front(), std::strerror(errno));
  if (WIFSIGNALED(status)) return fmt::format("signal {}", WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) return fmt::format("exit code {}", WEXITSTATUS(status));
  return "";
}

}  // namespace megalith::apps
