// SPDX-License-Identifier: Apache-2.0
// What long work on files calls between its pieces, from any thread of its own: whoever waits for
// it may be told that it goes on (comm::Communicator::sign_of_life). May be empty.
#pragma once

#include <functional>

namespace megalith::checkpoint {

using AtWork = std::function<void()>;

}  // namespace megalith::checkpoint
