// SPDX-License-Identifier: Apache-2.0
// System calls that a signal cut short. Not for rename and mkdir, which a network file system may
// have done by then: they fail.
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
