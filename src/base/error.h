// SPDX-License-Identifier: Apache-2.0
// The kinds of failure. Each maps to one exit code; `apps/` prints what() as one line and leaves.
// what() says what was wrong, where (file:line:column or recipe path), and what to do.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>

#include "base/format.h"

namespace megalith {

enum class ExitCode : int {
  ok = 0,
  failure = 1,         // the run failed: operating system, device, library, own mistake
  usage = 2,           // option, recipe or input
  integrity = 3,       // data or checkpoint damaged
  do_not_restart = 93  // a restart would fail in the same way
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message)
      : std::runtime_error(without_zeros(message)), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  /// what() ends at the first zero byte, and text from a file may hold one: it becomes \x00.
  static std::string without_zeros(const std::string& message) {
    if (message.find('\0') == std::string::npos) return message;
    std::string text;
    for (const char& c : message) text += c == '\0' ? "\\x00" : std::string_view(&c, 1);
    return text;
  }

  ExitCode code_;
};

/// A bad option, recipe or input: the person can fix it.
class UserError : public Error {
 public:
  template <typename... Args>
  explicit UserError(fmt::format_string<Args...> format, Args&&... args)
      : Error(ExitCode::usage, fmt::format(format, std::forward<Args>(args)...)) {}
};

/// Data or a checkpoint does not match its own checksums, sizes or names.
class IntegrityError : public Error {
 public:
  template <typename... Args>
  explicit IntegrityError(fmt::format_string<Args...> format, Args&&... args)
      : Error(ExitCode::integrity, fmt::format(format, std::forward<Args>(args)...)) {}
};

/// The operating system, a device or a library refused; names the call and the reason.
class SystemError : public Error {
 public:
  template <typename... Args>
  explicit SystemError(fmt::format_string<Args...> format, Args&&... args)
      : Error(ExitCode::failure, fmt::format(format, std::forward<Args>(args)...)) {}
};

/// The run must not be started again as it is.
class DoNotRestartError : public Error {
 public:
  template <typename... Args>
  explicit DoNotRestartError(fmt::format_string<Args...> format, Args&&... args)
      : Error(ExitCode::do_not_restart, fmt::format(format, std::forward<Args>(args)...)) {}
};

/// A mistake of the programmer; thrown by the checks of check.h.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& message) : Error(ExitCode::failure, message) {}
};

}  // namespace megalith
