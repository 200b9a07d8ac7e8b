// SPDX-License-Identifier: Apache-2.0
// Opens the gRPC plug-in.
#pragma once

#include <memory>

#include "rpc/rpc_server.h"

namespace megalith::rpc {

/// SystemError when the plug-in cannot be opened, or cannot listen.
std::unique_ptr<RpcServer> open_grpc(const RpcOptions& options);

}  // namespace megalith::rpc
