// SPDX-License-Identifier: Apache-2.0
// The identity of a call between processes.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "comm/operation.h"

namespace megalith::comm {

/// What ranks compare, as it travels.
struct CallHeader {
  uint64_t number = 0;
  int32_t kind = 0;
  int32_t dtype = 0;
  int64_t count = 0;
  int64_t rows = 0;
  int32_t root = 0;
  std::array<char, 156> label{};

  static CallHeader of(const Operation& operation, uint64_t number);
  friend bool operator==(const CallHeader&, const CallHeader&) = default;
  /// "all_gather 'x' of 12 f32"
  std::string text() const;
};

}  // namespace megalith::comm
