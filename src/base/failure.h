// SPDX-License-Identifier: Apache-2.0
// An exception of any type as a message and an exit code, for the places that catch everything (the
// end of the program, the end of a rank) and tell a person or another process.
#pragma once

#include <exception>
#include <string>

#include "base/error.h"

namespace megalith {

struct Failure {
  ExitCode code = ExitCode::failure;
  std::string text;

  /// Throws the Error that has this exit code.
  [[noreturn]] void raise() const;
};

/// True if a call on a path that failed with this errno is the fault of whoever named the path:
/// another path would do. Anything else is the machine's trouble.
bool is_mistake(int error);

/// True if the errno means that a disk has no room left, for bytes or for files.
bool is_full_disk(int error);

/// The failure that a caught exception stands for; never throws. An impossible path is the user's
/// mistake.
Failure failure_of(const std::exception_ptr& error);

}  // namespace megalith
