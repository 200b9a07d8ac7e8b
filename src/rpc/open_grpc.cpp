// SPDX-License-Identifier: Apache-2.0
#include "rpc/open_grpc.h"

#include <array>

#include "base/error.h"
#include "base/plugin.h"

namespace megalith::rpc {

std::unique_ptr<RpcServer> open_grpc(const RpcOptions& options) {
  void* const entry =
      open_plugin(kGrpcPluginFile, kGrpcPluginEntry, false, "gRPC was asked for with --grpc-port",
                  "install libgrpc++-dev and build again, or start without --grpc-port");
  std::array<char, 1024> error{};
  std::unique_ptr<RpcServer> server(reinterpret_cast<decltype(&megalith_open_grpc)>(entry)(
      options, error.data(), static_cast<int>(error.size())));
  if (server == nullptr) throw SystemError("{}: {}", kGrpcPluginFile, error.data());
  return server;
}

}  // namespace megalith::rpc
