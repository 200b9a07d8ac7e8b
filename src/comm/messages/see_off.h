// SPDX-License-Identifier: Apache-2.0
// Messages that a rank sends beside its calls: their tags, and their end.
#pragma once

#include <vector>

#include "comm/messages/wire.h"

namespace megalith::comm {

/// Below those of the groups' calls (MessageWorld::kTagsPerGroup).
enum : int { kNewsTag, kSignTag };

/// Whether it is done, or its peer is gone.
bool is_over(Wire& wire, Wire::Handle sent);

/// Until all are, for a second at most: a rank that takes nothing for so long hangs.
void see_off(Wire& wire, std::vector<Wire::Handle> sent);

}  // namespace megalith::comm
