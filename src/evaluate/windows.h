// SPDX-License-Identifier: Apache-2.0
// Strided windows over a text that is longer than a model's context.
#pragma once

#include <cstdint>
#include <span>

#include "base/function_ref.h"

namespace megalith::evaluate {

/// body(window, first): parts of `ids` of at most `context` tokens, half a context apart; those
/// from number `first` of the window on are new to it. Every token but the first of all is new
/// once, with at least half a context before it. UserError for a text or a context of
/// fewer than two tokens.
void for_each_window(std::span<const int32_t> ids, int64_t context,
                     FunctionRef<void(std::span<const int32_t> window, int64_t first)> body);

}  // namespace megalith::evaluate
