// SPDX-License-Identifier: Apache-2.0
// What the program and its gRPC plug-in agree on: calls of clients, by number, in messages as they
// are on the wire. The plug-in knows no method, the program no gRPC. A change raises the version in
// the name of the entry.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

namespace megalith::rpc {

/// What happened to a call. `begun` comes first and `gone` last, once each.
struct RpcEvent {
  enum class Kind : uint8_t {
    begun,
    message,      // that was asked for
    half_closed,  // in place of one: the client sends no more
    gone          // it has ended, whoever ended it
  };
  Kind kind = Kind::begun;
  uint64_t call = 0;
  // Of one that has begun:
  std::string method{};         // "/inference.GRPCInferenceService/ModelInfer"
  std::string authorization{};  // metadata of that name
  std::string peer{};           // as its connection was handed over with
  double seconds = std::numeric_limits<double>::infinity();  // that the client gives it

  std::string message{};
};

struct RpcOptions {
  size_t most_message_bytes = 64 << 20;     // that a client may send
  size_t most_calls = 256;                  // open at once, of all clients
  size_t most_held_bytes = 256 << 20;       // of messages under way, of all calls
  size_t most_unsent_bytes = 16 << 20;      // of one call, whose client does not read
  double write_seconds = 30;                // without the client taking anything
  double idle_seconds = 75;                 // of a connection without calls
  std::function<void(RpcEvent)> deliver{};  // called by the plug-in's thread
};

/// Any thread may call it; calls of what has ended do nothing.
class RpcServer {
 public:
  virtual ~RpcServer() = default;
  /// A connection of a client at this address, from here on the server's. It must not block.
  virtual void adopt(int connection, std::string peer) = 0;
  /// Asks for the call's next message.
  virtual void read(uint64_t call) = 0;
  virtual void send(uint64_t call, std::string message) = 0;
  /// Ends the call when all is sent, with gRPC's number of a status.
  virtual void finish(uint64_t call, int code, std::string text) = 0;
  /// No new calls; those that are open have so long to end. Nothing is delivered afterwards.
  virtual void close(double seconds) = 0;
};

inline constexpr char kGrpcPluginFile[] = "libmegalith_grpc.so";
inline constexpr char kGrpcPluginEntry[] = "megalith_open_grpc";

}  // namespace megalith::rpc

/// Null and a text in `error` where it cannot start.
extern "C" megalith::rpc::RpcServer* megalith_open_grpc(const megalith::rpc::RpcOptions& options,
                                                        char* error, int error_size);
