// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace megalith::layers {

/// The table of token rows, which the first layer reads and the last one where they are tied.
struct TokenTable {
  int64_t vocab = 0;
  int64_t padded_vocab = 0;  // rows from `vocab` on are zero
  int64_t width = 0;
  double init_std = 0.02;
  bool tied = false;  // a second gradient buffer for the output side
};

}  // namespace megalith::layers
