// SPDX-License-Identifier: Apache-2.0
// What an exception of any type says and which exit code it means: for whoever catches all of them
// (the program's end, the end of a rank) and tells a person or another process.
#pragma once

#include <exception>
#include <string>

#include "base/error.h"

namespace megalith {

struct Failure {
  ExitCode code = ExitCode::failure;
  std::string text;

  /// Throws the Error whose code this is.
  [[noreturn]] void raise() const;
};

/// Whether a call on a path that failed with this errno is the mistake of whoever named the path:
/// another one helps. The rest is the machine's trouble.
bool is_mistake(int error);

/// Whether it says that a disk has no room, for bytes or for files.
bool is_full_disk(int error);

/// Of a caught exception; never throws. A path that cannot be is the person's mistake.
Failure failure_of(const std::exception_ptr& error);

}  // namespace megalith
