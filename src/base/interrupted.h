// SPDX-License-Identifier: Apache-2.0
// Repeats system calls that a signal interrupted. Not for rename and mkdir: on a network file
// system an interrupted one may have been carried out, and then its repetition fails.
#pragma once

#include <cerrno>

namespace megalith {

/// Repeats a call until no signal interrupts it.
template <typename Call>
auto retry(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace megalith
