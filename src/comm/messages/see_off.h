// SPDX-License-Identifier: Apache-2.0
// The end of messages that a rank has sent beside its calls.
#pragma once

#include <vector>

#include "comm/messages/wire.h"

namespace megalith::comm {

/// Whether it is done, or its peer is gone.
bool is_over(Wire& wire, Wire::Handle sent);

/// Until all are, for a second at most: a rank that takes nothing for so long hangs.
void see_off(Wire& wire, std::vector<Wire::Handle> sent);

}  // namespace megalith::comm
