// SPDX-License-Identifier: Apache-2.0
// A function that long work on files calls between its pieces, from any of its threads: it may tell
// waiting ranks that the work goes on (comm::ControlMessages::heartbeat). May be empty.
#pragma once

#include <functional>

namespace megalith::checkpoint {

using AtWork = std::function<void()>;

}  // namespace megalith::checkpoint
