// SPDX-License-Identifier: Apache-2.0
// Messages that a rank sends beside its calls: their tags, and their end.
#pragma once

#include <vector>

#include "comm/messages/transport.h"

namespace megalith::comm {

/// Below those of the groups' calls (MessageWorld::kTagsPerGroup).
enum : int { kFailureTag, kHeartbeatTag };

/// Whether it is done, or its peer is gone.
bool is_over(Transport& transport, Transport::Handle sent);

/// Until all are, for a second at most: a rank that takes nothing for so long hangs.
void drain_sends(Transport& transport, std::vector<Transport::Handle> sent);

}  // namespace megalith::comm
