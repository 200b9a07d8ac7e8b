// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/state_digest.h"

#include <fmt/ranges.h>

#include "base/file.h"

namespace megalith::checkpoint {

void StateDigest::add(const std::string& name, DType dtype, const Shape& shape,
                      const std::string& sha256) {
  const bool added = lines_
                         .emplace(name, fmt::format("{}\t{}\t{}\t{}\n", name, dtype,
                                                    fmt::join(shape.dims(), ","), sha256))
                         .second;
  MEGA_CHECK(added, "tensor {} twice in one state", name);
}

std::string StateDigest::finish() const {
  Sha256 hash;
  for (const auto& [name, line] : lines_) hash.update(line.data(), line.size());
  return hash.finish();
}

}  // namespace megalith::checkpoint
