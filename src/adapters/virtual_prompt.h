// SPDX-License-Identifier: Apache-2.0
// What an adapter of virtual tokens is, whoever made it: rows that stand before every text in place
// of tokens (Lester et al. 2021), with whatever made them (Liu et al. 2021) gone into them. The
// values are elsewhere.
#pragma once

#include <cstdint>

namespace megalith::adapters {

/// Adapters of more tokens are refused.
inline constexpr int64_t kMostVirtualTokens = 1 << 16;

struct VirtualPrompt {
  int64_t tokens = 0;
  int64_t unread = 0;  // rows of the file behind them, which nothing reads
};

}  // namespace megalith::adapters
