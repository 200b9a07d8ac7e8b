// SPDX-License-Identifier: Apache-2.0
#include "base/host.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace megalith {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0)
    throw SystemError("gethostname: {}", std::strerror(errno));
  return name.data();
}

}  // namespace megalith
